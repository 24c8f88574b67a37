"""Writing a loss: when too little costs more than too much.

Run it: python examples/own_loss.py
"""

import matplotlib.pyplot as plt
import numpy as np

import rankwise as rw

# 1. Demand for 150 products in 100 shops, of which half is known.
rng = np.random.default_rng(0)
demand = 20 + 4 * rng.normal(size=(150, 2)) @ rng.normal(size=(2, 100)) + 3 * rng.normal(size=(150, 100))
known = np.where(rng.random(demand.shape) < 0.5, demand, np.nan)

# 2. The cost: an empty shelf is five times as bad as a full store room. x is the prediction, o what came true.
#    One Python function, convex in x; it is compiled, and checked for convexity before it is used.


@rw.loss(smooth=True)
def shelf(x, o):
    """Squared distance, five times as much where the prediction is too low."""
    missing = o - x
    return 2.5 * missing**2 if missing > 0 else 0.5 * missing**2


# 3. Learn with it as with any other loss, and with the plain square loss to compare.
careful = rw.MatrixCompletion(shelf, rank=3).fit(known).reconstruct()
plain = rw.MatrixCompletion("square", rank=3).fit(known).reconstruct()

# 4. What do both cost where nothing was known?
unseen = np.isnan(known)
for name, found in {"square": plain, "shelf": careful}.items():
    cost = shelf.value(found[unseen], demand[unseen]).mean()
    short = (found < demand)[unseen].mean()
    print(f"learned with {name}: mean cost {cost:.2f}, too little in {short:.0%} of the cases")

# 5. Look: the loss, and the errors that it leads to.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
x = np.linspace(-3, 3, 200)
left.plot(x, shelf.value(x, 0.0), label="shelf")
left.plot(x, rw.losses.Square().value(x, 0.0), label="square")
left.set(xlabel="prediction less truth", ylabel="loss", title="Too little costs more than too much")
left.legend()
for name, found in {"shelf": careful, "square": plain}.items():
    right.hist((found - demand)[unseen], bins=60, histtype="step", label=name)
right.axvline(0, color="black", linewidth=1)
right.set(xlabel="prediction less truth", ylabel="cells", title="Errors where nothing was known")
right.legend()
figure.savefig("own_loss.png", dpi=80)
