"""Remove outliers from images: a robust low-rank model of digits with a tenth of the pixels corrupted.

Run it: python examples/outliers.py
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import rankwise as rw

# 1. Load 1,797 digits of 8 x 8 pixels from 0 (white) to 16 (black): a row per image, a column per pixel.
clean = load_digits().data

# 2. Set a tenth of the pixels to white or black at random. The models do not know which.
rng = np.random.default_rng(0)
ruined = rng.random(clean.shape) < 0.1
dirty = np.where(ruined, rng.choice([0.0, 16.0], clean.shape), clean)

# 3. Choose losses. Under the square loss, the influence of an outlier grows with its size; under l1 it is bounded.
estimators = {
    "square loss": rw.MatrixCompletion("square", rank=20),
    "l1 loss": rw.MatrixCompletion("l1", rank=20),
    "pursuit, l1 loss": rw.RobustFactorization("l1", rank=20, method="glrl-nonsmooth", offsets="columns"),
    "pursuit, Huber's loss": rw.RobustFactorization("huber", rank=20, method="eglrl", offsets="columns"),
}

# 4. Reconstruct the images, clipped to the range of pixels, and compare the corrupted pixels with the originals.
images = {"clean": clean, "as given": dirty}
for name, estimator in estimators.items():
    images[name] = np.clip(estimator.fit(dirty).reconstruct(), 0, 16)
for name, image in images.items():
    print(f"{name}: the corrupted pixels are off by {np.abs(image - clean)[ruined].mean():.2f} of 16")

# 5. Detect the corrupted pixels: those with the largest loss in the l1 model.
worst = estimators["l1 loss"].residuals(n=2000)
print(f"{ruined[worst.rows, worst.cols].mean():.1%} of the 2,000 largest residuals are corrupted pixels")

figure, axes = plt.subplots(6, 10, figsize=(9, 5.6), layout="constrained")
for row, (name, image) in zip(axes, images.items(), strict=True):
    for axis, pixels in zip(row, image[:10], strict=True):
        axis.imshow(pixels.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        axis.set(xticks=[], yticks=[])
    row[0].set_ylabel(name, rotation=0, ha="right", va="center")
figure.savefig("outliers.png", dpi=80)
