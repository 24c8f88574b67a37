"""Prediction intervals from two quantile fits, for noise that grows with the expected value.

Run it: python examples/intervals.py
"""

import matplotlib.pyplot as plt
import numpy as np

import rankwise as rw

# 1. Simulate loads of 300 machines at 200 hours: rank one, with noise in proportion to the load.
rng = np.random.default_rng(0)
typical = np.exp(rng.normal(0, 0.6, (300, 1)) + rng.normal(0, 0.4, (1, 200)))
loads = typical * (1 + 0.4 * rng.normal(size=typical.shape))
seen = rng.random(loads.shape) < 0.6

# 2. Fit the 10 % and the 90 % quantile of every load.
known = np.where(seen, loads, np.nan)
low = rw.MatrixCompletion(rw.losses.Quantile(0.1), rank=4).fit(known).reconstruct()
high = rw.MatrixCompletion(rw.losses.Quantile(0.9), rank=4).fit(known).reconstruct()

# 3. Count the held-out loads between the two quantiles; it should be 80 %.
inside = (low <= loads) & (loads <= high)
print(
    f"two quantile fits: {inside[~seen].mean():.1%} of unseen loads inside, mean width {(high - low)[~seen].mean():.2f}"
)

# 4. Compare with conformal intervals: a tenth of the entries calibrates their width, which guarantees the coverage.
model = rw.MatrixCompletion(rank=4, calibration=0.1).fit(known)
rows, cols = np.nonzero(~seen)
least, most = model.predict_interval(rows, cols, coverage=0.8)
covered = (least <= loads[rows, cols]) & (loads[rows, cols] <= most)
print(f"calibrated: {covered.mean():.1%} inside, mean width {(most - least).mean():.2f}")

# 5. Draw the quantile intervals of a machine with high load and of one with low load.
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", sharey=True)
order = np.argsort(typical[0])
busy = np.argsort(typical[:, 0])
for axis, machine, title in zip(axes, (busy[-30], busy[60]), ("high", "low"), strict=True):
    axis.fill_between(range(200), low[machine, order], high[machine, order], alpha=0.3, label="10 % to 90 %")
    for part, name in ((seen[machine, order], "training"), (~seen[machine, order], "held out")):
        axis.plot(np.flatnonzero(part), loads[machine, order][part], ".", markersize=3, label=name)
    axis.set(xlabel="hour, by increasing load", title=f"Machine with {title} load")
axes[0].set_ylabel("load")
axes[0].legend()
figure.savefig("intervals.png", dpi=80)
