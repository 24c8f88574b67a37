"""Predict trust between people, and check whether the probabilities are calibrated.

Run it: python examples/trust.py
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss

import rankwise as rw

# 1. Load signs of trust (+1) and distrust (-1): Slashdot if `rankwise data fetch slashdot` has run, else synthetic.
if rw.datasets.find(rw.datasets.get("slashdot")):
    signs = rw.datasets.load("slashdot")
else:
    signs = rw.datasets.signed_network(300, 300, rank=3, density=0.15, flip=0.1).observations
print(f"{signs.n_observed:,} signs, {np.mean(signs.targets > 0):.0%} of them trust")

# 2. Hold out a tenth and fit to the rest. Under the logistic loss, predictions are log-odds or probabilities of +1.
train, test = rw.selection.split_entries(signs, 0.1)
model = rw.MatrixCompletion("logistic").fit(train)

# 3. Score the predictions of the held-out signs.
pairs = (test.rows, test.cols) if test.row_labels is None else (test.row_labels[test.rows], test.col_labels[test.cols])
log_odds = model.predict_entries(*pairs, scale="link")
accuracy, auc = rw.selection.sign_accuracy(test.targets, log_odds), rw.selection.auc(test.targets, log_odds)
print(f"accuracy {accuracy:.3f}, AUC {auc:.3f}")

# 4. Compute probabilities: averaged over the posterior of the log-odds, and calibrated on signs that `fit` held back.
trusted = test.targets > 0
averaged = replace(model.model_, calibration=None)
probabilities = {"averaged": averaged.predict_entries(*pairs), "calibrated": model.predict_entries(*pairs)}

# 5. Draw the calibration: of the links with a probability of 70 %, about 70 % should be trust.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot([0, 1], [0, 1], color="grey", linestyle="--", label="perfectly calibrated")
for name, chance in probabilities.items():
    print(f"{name}: log loss {log_loss(trusted, chance):.4f}")
    observed, predicted = calibration_curve(trusted, chance, n_bins=10)
    left.plot(predicted, observed, marker="o", label=name)
    right.hist(chance, bins=20, histtype="step", label=name)
left.set(xlabel="predicted probability of trust", ylabel="share that is trust", title="Reliability on held-out links")
left.legend()
right.set(xlabel="predicted probability of trust", ylabel="links", title="Distribution of the probabilities")
right.legend()
figure.savefig("trust.png", dpi=80)
