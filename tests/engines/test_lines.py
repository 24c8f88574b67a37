"""Operations on arrays with a line per row: NumPy's results, in many shards, and handles of what a cluster keeps."""

import gc

import numpy as np
import pytest
from clusters import on_cluster, some_entries, tiny_shards, workers

from rankwise import Problem
from rankwise.engines import LinesLost, Shard
from rankwise.engines.lines import row_squares
from rankwise.kernels.row_parts import GaussianPrior
from rankwise.losses import Square

RNG = np.random.default_rng(0)
ROWS, COLS = 240, 60


@pytest.fixture
def engine(monkeypatch):
    tiny_shards(monkeypatch)
    engine = Problem(some_entries((ROWS, COLS)), Square(), dtype=np.float64).engine
    assert len(engine.shards) > 4
    return engine


def blocks(n=3, width=5):
    return tuple(RNG.standard_normal((ROWS, width)) for _ in range(n))


def test_a_blend_is_the_weighted_sum_of_blocks(engine):
    given, weights, scale = blocks(), (2.0, np.arange(5.0), -1), RNG.random(ROWS)
    found, squares = engine.run(Shard.blend, weights, given, scale)
    wanted = scale[:, None] * sum(weight * block for weight, block in zip(weights, given, strict=True))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(squares, (wanted**2).sum(axis=0), rtol=1e-12)


def test_a_blend_with_sums_over_the_pattern(engine):
    block, (more,), scale = RNG.standard_normal((COLS, 5)), blocks(1), RNG.random(ROWS)
    found, squares = engine.run(Shard.gather_blend, block, 5, (-2.0, np.arange(5.0)), (more,), scale)
    seen = some_entries((ROWS, COLS)).to_sparse().toarray() != 0
    wanted = scale[:, None] * (-2.0 * (seen @ block) + np.arange(5.0) * more)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(squares, (wanted**2).sum(axis=0), rtol=1e-11)
    lengths = engine.run(Shard.pattern_lengths, "<f8")
    np.testing.assert_allclose(lengths, np.maximum(seen.sum(axis=1), 1) ** -0.5, rtol=1e-15)


def test_columns_are_inserted_selected_and_bounded(engine):
    block, more = blocks(2)
    np.testing.assert_array_equal(engine.run(Shard.insert, block, 2, 5, more), np.insert(block, [2] * 5, more, axis=1))
    np.testing.assert_array_equal(engine.run(Shard.insert, block, 5, 2, 0.5)[:, 5:], np.full((ROWS, 2), 0.5))
    np.testing.assert_array_equal(engine.run(Shard.select, block, np.array([3, 0])), block[:, [3, 0]])
    np.testing.assert_array_equal(engine.run(Shard.largest, block).max(axis=0), np.abs(block).max(axis=0))
    assert engine.kept(block) is block  # threads share the memory


def test_squares_of_rows_are_those_of_their_gaussian_prior():
    means, variances, prior_means = blocks()
    multipliers = RNG.random(ROWS)
    found = row_squares(means, variances**2, GaussianPrior(prior_means, np.ones(5), multipliers))
    np.testing.assert_allclose(found[:5], ((means - prior_means) ** 2 + variances**2).sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found[5:], (multipliers[:, None] * means**2).sum(axis=0), rtol=1e-12)


def kept_lines(dask_worker):
    """Number of arrays that the actors of a worker keep; runs in the worker."""
    return [len(actor.kept._lines) for actor in dask_worker.state.actors.values()]


def test_workers_keep_lines_until_their_handle_goes(monkeypatch):
    tiny_shards(monkeypatch)
    (block,) = blocks(1)
    with workers(2) as client:
        engine = Problem(on_cluster(client, some_entries((ROWS, COLS))), Square(), dtype=np.float64).engine
        handle, zero = engine.kept(block), engine.kept(np.zeros((ROWS, 2)))
        assert handle.shape == block.shape and engine.kept(handle) is handle and engine.traffic.trips == 0
        some = np.array([200, 3, 3, 120])
        before = engine.traffic.back
        np.testing.assert_array_equal(handle[some], block[some])
        assert engine.traffic.back - before == block[some].nbytes
        np.testing.assert_array_equal(handle, block)
        doubled, squares = engine.run(Shard.blend, (2,), (handle,), None)
        np.testing.assert_array_equal(doubled, 2 * block)
        np.testing.assert_allclose(squares, (4 * block**2).sum(axis=0), rtol=1e-12)
        assert list(client.run(kept_lines).values()) == [[3], [3]]
        del handle, zero
        gc.collect()
        engine.run(Shard.evaluate)
        assert list(client.run(kept_lines).values()) == [[1], [1]]
        engine.close()
        with pytest.raises(LinesLost, match="lost with the factors"):
            doubled[some]
            np.negative(engine.run(Shard.blend, (2,), (doubled,), None)[1])
