"""Many rows of high rank are ranked from a short list of columns, with the bits of the kernel that scores them all."""

from dataclasses import replace

import numpy as np
import pytest

from rankwise import LowRankModel
from rankwise.model import Offsets, Seen, ranking
from rankwise.model.neighbours import Neighbours
from rankwise.model.shortlist import LEAST_RANK, LEAST_ROWS, Shortlist

SHAPE, RANK = (90, 700), 40  # two tasks of rows


def model_of(kind, dtype=np.float32):
    rng = np.random.default_rng(0)
    U, V = (rng.normal(size=(n, RANK)) for n in SHAPE)
    base = np.zeros(SHAPE[0])
    if kind == "ties":
        U, V = (rng.integers(-1, 2, part.shape) for part in (U, V))
    elif kind == "near ties":  # pairs of columns whose scores differ by less than single precision tells
        V[1::2] = V[::2] * (1 + 1e-9 * rng.normal(size=(SHAPE[1] // 2, 1)))
    elif kind == "large":
        U = 1e30 * U
    elif kind == "tiny":
        U, V = 1e-22 * U, 1e-22 * V
    elif kind == "far from zero":
        base[:] = 1e12
    elif kind == "zero":
        U = 0 * U
    elif kind == "one popular column":
        V[5] *= 1e4
    seen = np.sort(np.stack([rng.choice(SHAPE[1], 30, replace=False) for _ in range(SHAPE[0])]), axis=1)
    seen = Seen(np.arange(0, 30 * SHAPE[0] + 1, 30).astype(np.uint64), seen.astype(np.uint32).ravel())
    offsets = Offsets(0.0, base, rng.normal(size=SHAPE[1]) if kind in ("random", "ties") else np.zeros(SHAPE[1]))
    model = LowRankModel(np.tri(RANK), U.astype(dtype), V.astype(dtype), offsets=offsets, seen=seen)
    if kind == "neighbours":
        weights = rng.normal(size=(SHAPE[1], SHAPE[1])) * (rng.random((SHAPE[1], SHAPE[1])) < 0.1)
        model = replace(model, neighbours=Neighbours.of(weights))
    return model


KINDS = "random", "ties", "near ties", "large", "tiny", "far from zero", "zero", "one popular column", "neighbours"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_has_the_same_bits_alone_and_among_many(kind, dtype):
    model = model_of(kind, dtype)
    assert RANK >= LEAST_RANK and SHAPE[0] >= LEAST_ROWS > 1
    for options in ({}, {"exclude_seen": False}, {"only": np.arange(3, 690, 2)}, {"rank": 30}):
        columns, scores = model.recommend(np.arange(SHAPE[0]), 9, **options)
        for row in (0, 63, 64, 89):
            alone = model.recommend(row, 9, **options)
            assert np.array_equal(alone[0], columns[row]) and np.array_equal(alone[1], scores[row])


def test_the_list_is_short_and_has_the_best_columns_of_every_row():
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(16, RANK)), rng.normal(size=(2000, RANK))
    nothing = np.zeros(17, np.uint64), np.zeros(0, np.uint32), np.arange(2000)
    listed = Shortlist.of(left, right, 5).columns(left, np.zeros(16), np.zeros((1, 2000)), nothing, 5)
    best = np.unique(np.argsort(-left @ right.T, axis=1)[:, :5])
    assert np.array_equal(listed, best)


def test_no_list_is_made_where_it_does_not_pay(monkeypatch):
    model = model_of("random")
    monkeypatch.setattr(Shortlist, "columns", lambda *args: pytest.fail("a list was made"))
    model.recommend(np.arange(LEAST_ROWS - 1), 9)
    model.recommend(np.arange(90), 9, rank=LEAST_RANK - 1)
    model.recommend(np.arange(90), 600)
    ranking.best_columns(ranking.scores_of(model, np.arange(3), None, 0.0), 9)
