"""Write a loss: predictions that are too low cost more than predictions that are too high.

Run it: python examples/own_loss.py
"""

import matplotlib.pyplot as plt
import numpy as np

import rankwise as rw

# 1. Simulate the demand for 150 products in 100 shops, and observe half of it.
rng = np.random.default_rng(0)
demand = 20 + 4 * rng.normal(size=(150, 2)) @ rng.normal(size=(2, 100)) + 3 * rng.normal(size=(150, 100))
known = np.where(rng.random(demand.shape) < 0.5, demand, np.nan)

# 2. Define the loss: too little stock costs five times as much as too much. x is the prediction, o the target.
#    The function must be convex in x; it is compiled, and checked for convexity before the fit.


@rw.loss(smooth=True)
def shelf(x, o):
    """Squared error, times five where the prediction is too low."""
    missing = o - x
    return 2.5 * missing**2 if missing > 0 else 0.5 * missing**2


# 3. Fit with this loss, and with the square loss for comparison.
careful = rw.MatrixCompletion(shelf, rank=3).fit(known).reconstruct()
plain = rw.MatrixCompletion("square", rank=3).fit(known).reconstruct()

# 4. Compare the cost of both on the unobserved cells.
unseen = np.isnan(known)
for name, predictions in {"square": plain, "shelf": careful}.items():
    cost = shelf.value(predictions[unseen], demand[unseen]).mean()
    short = (predictions < demand)[unseen].mean()
    print(f"fitted with {name}: mean cost {cost:.2f}, too low in {short:.0%} of the cells")

# 5. Draw the loss, and the distribution of the errors.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
x = np.linspace(-3, 3, 200)
left.plot(x, shelf.value(x, 0.0), label="shelf")
left.plot(x, rw.losses.Square().value(x, 0.0), label="square")
left.set(xlabel="prediction less truth", ylabel="loss", title="Too little costs more than too much")
left.legend()
for name, predictions in {"shelf": careful, "square": plain}.items():
    right.hist((predictions - demand)[unseen], bins=60, histtype="step", label=name)
right.axvline(0, color="black", linewidth=1)
right.set(xlabel="prediction less truth", ylabel="cells", title="Errors where nothing was known")
right.legend()
figure.savefig("own_loss.png", dpi=80)
