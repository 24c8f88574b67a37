"""Prediction intervals from two quantile fits, for noise that is not the same everywhere.

Run it: python examples/intervals.py
"""

import matplotlib.pyplot as plt
import numpy as np

import rankwise as rw

# 1. Loads of 300 machines at 200 hours: of low rank, and the larger the load, the more it varies.
rng = np.random.default_rng(0)
typical = np.exp(rng.normal(0, 0.6, (300, 1)) + rng.normal(0, 0.4, (1, 200)))
loads = typical * (1 + 0.4 * rng.normal(size=typical.shape))
seen = rng.random(loads.shape) < 0.6

# 2. Learn what a tenth of the loads stay below, and what nine tenths stay below: two fits.
known = np.where(seen, loads, np.nan)
low = rw.MatrixCompletion(rw.losses.Quantile(0.1), rank=4).fit(known).reconstruct()
high = rw.MatrixCompletion(rw.losses.Quantile(0.9), rank=4).fit(known).reconstruct()

# 3. How many of the loads that were not seen lie between? Four out of five should.
inside = (low <= loads) & (loads <= high)
print(
    f"two quantile fits: {inside[~seen].mean():.1%} of unseen loads inside, mean width {(high - low)[~seen].mean():.2f}"
)

# 4. The same with a promise: a tenth of the entries sets the width, so that the coverage is right for any fits.
model = rw.MatrixCompletion(rank=4, calibration=0.1).fit(known)
rows, cols = np.nonzero(~seen)
least, most = model.predict_interval(rows, cols, coverage=0.8)
covered = (least <= loads[rows, cols]) & (loads[rows, cols] <= most)
print(f"calibrated: {covered.mean():.1%} inside, mean width {(most - least).mean():.2f}")

# 5. Look: the intervals of one machine that is used much and of one that is not, over the hours.
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", sharey=True)
order = np.argsort(typical[0])
busy = np.argsort(typical[:, 0])
for axis, machine, title in zip(axes, (busy[-30], busy[60]), ("used much", "used little"), strict=True):
    axis.fill_between(range(200), low[machine, order], high[machine, order], alpha=0.3, label="10 % to 90 %")
    for part, name in ((seen[machine, order], "learned from"), (~seen[machine, order], "not seen")):
        axis.plot(np.flatnonzero(part), loads[machine, order][part], ".", markersize=3, label=name)
    axis.set(xlabel="hour, the quietest first", title=f"A machine that is {title}")
axes[0].set_ylabel("load")
axes[0].legend()
figure.savefig("intervals.png", dpi=80)
