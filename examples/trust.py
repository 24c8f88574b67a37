"""Who trusts whom: probabilities that mean what they say.

Run it: python examples/trust.py
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss

import rankwise as rw

# 1. Signs of trust (+1) and distrust (-1): Slashdot if it is here (`rankwise data fetch slashdot`), else made.
if rw.datasets.find(rw.datasets.get("slashdot")):
    signs = rw.datasets.load("slashdot")
else:
    signs = rw.datasets.signed_network(300, 300, rank=3, density=0.15, flip=0.1).observations
print(f"{signs.n_observed:,} signs, {np.mean(signs.targets > 0):.0%} of them trust")

# 2. Hold a tenth out, and learn from the rest; "logistic" makes predictions probabilities of +1.
train, test = rw.selection.split_entries(signs, 0.1)
model = rw.MatrixCompletion("logistic").fit(train)

# 3. Predict the signs that were held out.
pairs = (test.rows, test.cols) if test.row_labels is None else (test.row_labels[test.rows], test.col_labels[test.cols])
log_odds = model.predict_entries(*pairs, scale="link")
accuracy, auc = rw.selection.sign_accuracy(test.targets, log_odds), rw.selection.auc(test.targets, log_odds)
print(f"accuracy {accuracy:.3f}, AUC {auc:.3f}")

# 4. Probabilities, twice: of the best guess alone, and averaged over how unsure the guess is.
trusted = test.targets > 0
probabilities = {
    "best guess": model.predict_entries(*pairs),
    "averaged over what is not known": model.predict_entries(*pairs, decode="probability"),
}

# 5. Are they calibrated? Of links given a chance of 70 %, about 70 % should be trust.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot([0, 1], [0, 1], color="grey", linestyle="--", label="perfectly calibrated")
for name, chance in probabilities.items():
    print(f"{name}: log loss {log_loss(trusted, chance):.4f}")
    observed, predicted = calibration_curve(trusted, chance, n_bins=10)
    left.plot(predicted, observed, marker="o", label=name)
    right.hist(chance, bins=20, histtype="step", label=name)
left.set(xlabel="predicted probability of trust", ylabel="share that is trust", title="Reliability on held-out links")
left.legend()
right.set(xlabel="predicted probability of trust", ylabel="links", title="How often it says what")
right.legend()
figure.savefig("trust.png", dpi=80)
