"""Models, held-out entries and hostile labels for tests of the report."""

import numpy as np

import rankwise as rw
from rankwise.model import LowRankModel, Offsets, Seen

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!-- <script>",
    "\"quotes\" & 'quotes' &amp; &lt;",
    "back\\slash \\u003c ${1} `tick`",
    "@@style@@ @@nothing@@",
    "tab\tnew\nline\u2028\u2029",
    "été 漢字 😀 \u202eright to left",
    "\ud800 lone surrogate",
    "__proto__",
    "x" * 5000,
]


def random_model(shape=(30, 20), rank=4, labels=(None, None), seen=True, **more):
    """A model with random factors, a triangular path, offsets and a seen pattern."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(size, rank)))[0] for size in shape)
    path = np.tril(rng.uniform(2.0, 6.0, (rank, rank)))
    offsets = Offsets(3.0, rng.normal(0, 0.3, shape[0]), rng.normal(0, 0.3, shape[1]))
    mask = rng.random(shape) < 0.3
    mask[0, 0] = True
    indptr = np.r_[0, np.cumsum(mask.sum(1))].astype(np.uint64)
    found = Seen(indptr, np.nonzero(mask)[1].astype(np.uint32)) if seen else None
    return LowRankModel(path, U, V, *labels, offsets=offsets, seen=found, loss=rw.losses.Square(), **more)


def held_out_of(model, n=40):
    """Unseen entries near the model's predictions, under the model's names."""
    rng = np.random.default_rng(1)
    mask = np.ones(model.shape, bool)
    starts = model.seen.indptr.astype(int)
    for row in range(model.shape[0]):
        mask[row, model.seen.indices[starts[row] : starts[row + 1]]] = False
    rows, cols = (side[:n] for side in rng.permutation(np.argwhere(mask)).T)
    pairs = np.unique(np.c_[rows, cols], axis=0)
    values = model.to_dense()[tuple(pairs.T)] + rng.normal(0, 0.1, len(pairs))
    return rw.Observations.from_coo(*pairs.T, values, model.shape, labels=(model.row_labels, model.col_labels))
