"""The same bits for any number of threads, ours and those of BLAS; and the engine that sees to it.

Run as a script, this file prints digests of fits, so that tests can ask other processes for theirs.
"""

import hashlib
import math
import os
import subprocess
import sys
import threading
import time
from functools import cache, reduce
from itertools import product
from multiprocessing import get_context
from operator import add
from unittest.mock import patch

import joblib
import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor

from rankwise import Observations, Problem, Ridged, SettingError, solve
from rankwise.engines import Join, Results, Shard, Threads, operation, threads, usable_cores
from rankwise.losses import Absolute, Logistic, Square
from rankwise.observations import shards as cutting
from rankwise.solvers import (
    AISImpute,
    AltMin,
    BayesSweeps,
    FactorSweeps,
    FrankWolfe,
    GreedyPursuit,
    LocalSearch,
    NonsmoothPursuit,
    get,
)
from rankwise.spectral import Lanczos, PowerMethod

CONFIGURATIONS = [
    *product(("none", "economic", "coefficients"), (0.0, 0.5), ("float32", "float64"), (PowerMethod(4),)),
    ("economic", 0.5, "float32", Lanczos(tol=0.1)),
]


@cache
def signs():
    """Noisy signs on eight shards, with enough rows for BLAS to split a dot product between its threads."""
    rng, shape = np.random.default_rng(33), (45_000, 1500)
    rows, cols = np.divmod(np.unique(rng.integers(0, shape[0] * shape[1], 350_000)), shape[1])
    left, right = (rng.normal(size=(size, 4)) for size in shape)
    scores = np.sum(left[rows] * right[cols], axis=1) + rng.normal(size=rows.size)
    observations = Observations.from_coo(rows, cols, np.where(scores > 0, 1.0, -1.0), shape)
    with patch.object(cutting, "MIN_SHARD", 1 << 15):
        assert observations.cuts().size == 9  # of which the matrix keeps a note
    return observations


def digest(configuration, n_jobs=None, seed=0):
    """A hash of everything a fit found: square and logistic, since they refine in different ways."""
    refine, ridge, dtype, oracle = configuration
    found = hashlib.sha256()
    for loss in (Square(), Logistic()):
        problem = Problem(signs(), loss, dtype=dtype, n_jobs=n_jobs)
        objective = Ridged(problem, ridge) if ridge else problem
        result = solve(objective, GreedyPursuit(refine, oracle), rank=2, random_state=seed)
        columns = [result.history.column(name) for name in ("value", "sigma", "alignment", "gap")]
        for part in (result.model.path, result.model.U, result.model.V, *columns):
            found.update(part.tobytes())
    return found.hexdigest()


@cache
def on_one_thread():
    return [digest(configuration, n_jobs=1) for configuration in CONFIGURATIONS]


def ask(what, **environment):
    """What this file prints when run as a script, in a fresh process."""
    command, env = [sys.executable, "-W", "error", __file__, what], {**os.environ, **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_there_are_several_shards_and_digests_tell_fits_apart():
    assert len(Problem(signs(), Square()).engine.shards) >= 5
    assert len(set(on_one_thread())) == len(CONFIGURATIONS)
    assert digest(CONFIGURATIONS[0], n_jobs=1, seed=1) != on_one_thread()[0]


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_fits_have_the_same_bits_on_any_number_of_threads(n_jobs):
    assert [digest(configuration, n_jobs) for configuration in CONFIGURATIONS] == on_one_thread()


SOLVERS = {  # every solver that runs shard operations, and a loss for it
    "bayes": (BayesSweeps(), Logistic()),
    "factors": (FactorSweeps(), Square()),
    "altmin": (AltMin(), Logistic()),
    "ais-impute": (AISImpute(100.0), Logistic()),
    "geco": (get("geco"), Square()),
    "frank-wolfe": (FrankWolfe(100.0), Logistic()),
    "frank-wolfe, plain": (FrankWolfe(100.0, corrective=False), Logistic()),
    "local-search": (LocalSearch(GreedyPursuit(), polish=1), Logistic()),
    "glrl-nonsmooth": (NonsmoothPursuit(), Absolute()),
}


@pytest.mark.parametrize(("solver", "loss"), SOLVERS.values(), ids=SOLVERS)
def test_every_solver_has_the_same_bits_on_one_to_four_threads(solver, loss):
    found = set()
    for n_jobs in (1, 2, 3, 4):
        result = solve(Problem(signs(), loss, n_jobs=n_jobs), solver, rank=3, max_iter=3)
        parts = result.model.path, result.model.U, result.model.V, result.history.column("value")
        found.add(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", ["2", "4"])
def test_fits_have_the_same_bits_with_any_number_of_blas_threads(n_threads):
    """This process has one, see conftest.py."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    assert ask("digests", **dict.fromkeys(names, n_threads)) == on_one_thread()


def test_a_child_forked_after_a_fit_can_fit():
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    first, of_the_child = ask("fork")
    assert first == of_the_child == on_one_thread()[1]


def cores_and_digest():
    return usable_cores(), usable_cores(None), usable_cores(3), digest(CONFIGURATIONS[1])


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_joblib_worker_has_one_core_and_the_same_bits(backend):
    try:
        (found,) = joblib.Parallel(n_jobs=2, backend=backend)([joblib.delayed(cores_and_digest)()])
    finally:
        get_reusable_executor().shutdown(wait=True)
    assert found == (1, 1, 3, on_one_thread()[1])


def test_cores_are_counted_as_joblib_counts():
    assert usable_cores() == usable_cores(-1) == joblib.effective_n_jobs(-1)
    assert [usable_cores(n) for n in (1, 3, np.int64(2), 1000)] == [1, 3, 2, 1000]
    assert usable_cores(-1000) == 1


def test_none_is_one_thread_outside_a_joblib_context_and_its_number_inside():
    assert usable_cores(None) == 1
    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend, n_jobs=3):
            assert usable_cores(None) == 3 == joblib.effective_n_jobs(None)
            assert usable_cores(2) == 2


@pytest.mark.parametrize("n_jobs", [0, True, False, 1.5, "2"])
def test_what_is_no_number_of_cores_is_refused(n_jobs):
    with pytest.raises(SettingError, match="`n_jobs` must be None or a non-zero integer"):
        usable_cores(n_jobs)


class FakeShard:
    """A shard that returns a number, after what it is told to do first; `blocks` are shards of their own."""

    def __init__(self, number, before=None, blocks=()):
        self.number, self.before, self.blocks, self.n_blocks = number, before, blocks, max(1, len(blocks))

    def parts(self, operation):
        return self.blocks if operation.by_block and self.blocks else [self]

    def run(self, operation, args):
        if self.before is not None:
            self.before()
        return operation.method(self, *args)

    @operation(Join.SUM)
    def total(self):
        return np.array([self.number])

    @operation(Join.CONCATENATE)
    def piece(self):
        return np.array([self.number])

    @operation(Join.CONCATENATE)
    def other_piece(self):
        return np.array([self.number])

    @operation(Join.BOTH, by_block=True)
    def pair(self):
        return np.array([self.number]), np.array([self.number])

    @operation(Join.STAY)
    def nothing(self):
        pass


def late_first_shard(numbers):
    """Shards of which the first returns only after the fourth, the furthest two threads may be ahead."""
    fourth = threading.Event()
    shards = [FakeShard(number) for number in numbers]
    shards[0].before = lambda: fourth.wait(20) or pytest.fail("nobody ran ahead of the first shard")
    shards[3].before = fourth.set
    return shards


TELLTALE = [1.0, 1e16, -1e16, 3.0, 1e-3, -7.0, 1e17, -1e17, 5.0]  # no two orders add these up alike


def by_tree(numbers):
    """Sum along the tree over shard numbers: the left part is the largest power of two that leaves something."""
    if len(numbers) == 1:
        return numbers[0]
    left = 1 << (len(numbers) - 1).bit_length() - 1
    return by_tree(numbers[:left]) + by_tree(numbers[left:])


@pytest.mark.parametrize("n", [*range(1, 18), 64, 100])
@pytest.mark.parametrize("n_workers", [1, 2, 3, 5])
def test_sums_do_not_depend_on_who_adds_what_up(n, n_workers):
    rng = np.random.default_rng((n, n_workers))
    numbers = rng.standard_normal(n) * 10.0 ** rng.integers(-8, 9, n)
    owner = rng.integers(n_workers, size=n)  # in no order, as after workers were lost
    results = Results(Join.SUM)
    workers = [Results(Join.SUM) for _ in range(n_workers)]
    for number in range(n):
        workers[owner[number]].add(number, numbers[number : number + 1].copy())
    results.merge(workers)
    assert results.joined().tolist() == [by_tree(numbers.tolist())]


def test_sums_fold_in_one_order_whatever_order_results_come_in():
    wanted = by_tree(TELLTALE)
    others = sorted(TELLTALE), TELLTALE[1:] + TELLTALE[:1]
    assert all(wanted != reduce(add, other) for other in others)  # `sum` compensates from Python 3.12 on
    engine = Threads(late_first_shard(TELLTALE), n_jobs=2)
    try:
        assert engine.run(FakeShard.total).tolist() == [wanted]
        pieces, total = engine.run(FakeShard.pair)
        assert pieces.tolist() == TELLTALE and total.tolist() == [wanted]
        assert engine.run(FakeShard.piece).tolist() == TELLTALE
    finally:
        engine.close()


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_blocks_are_summed_by_shard_before_shards_are(n_jobs):
    blocks = [TELLTALE[:1], TELLTALE[1:6], TELLTALE[6:]]
    shards = [FakeShard(math.nan, blocks=[FakeShard(number) for number in numbers]) for numbers in blocks]
    whole = Threads(shards, n_jobs)
    workers = Threads(shards[1:], n_jobs, [1, 2]), Threads(shards[:1], n_jobs, [0])
    together = Results(Join.BOTH)
    try:
        assert whole.n_jobs == n_jobs
        alone = whole.run(FakeShard.pair)
        together.merge(worker.apply(FakeShard.pair, ()) for worker in workers)
    finally:
        for engine in (whole, *workers):
            engine.close()
    for pieces, total in (alone, together.joined()):
        assert pieces.tolist() == TELLTALE and total.tolist() == [by_tree([by_tree(numbers) for numbers in blocks])]


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
@pytest.mark.parametrize("bad", [0, 4, 8])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_a_shard_propagates_and_the_engine_works_on(n_jobs, bad, error):
    def fail():
        raise error("shard")

    shards = [FakeShard(number) for number in TELLTALE]
    engine = Threads(shards, n_jobs)
    try:
        for _ in range(3):
            shards[bad].before = fail
            with pytest.raises(error, match="shard"):
                engine.run(FakeShard.total)
            shards[bad].before = None
            assert engine.run(FakeShard.piece).tolist() == TELLTALE
    finally:
        engine.close()


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_few_results_wait_however_late_the_first_is(n_jobs):
    started, while_waiting, too_many = [], [], threading.Event()

    def first():
        too_many.wait(0.3)  # the others have this long to run away
        while_waiting.append(len(started))

    def other():
        started.append(None)
        if len(started) > n_jobs + 1:
            too_many.set()

    engine = Threads([FakeShard(0.0, other if index else first) for index in range(40)], n_jobs)
    try:
        assert engine.run(FakeShard.nothing) is None
    finally:
        engine.close()
    assert n_jobs <= while_waiting[0] + 1 <= n_jobs + 2 and len(started) == 39


def test_little_work_is_left_to_the_caller_and_more_is_shared(monkeypatch):
    monkeypatch.setattr(threads, "WORTH", 1e-2)
    shards, asked = [FakeShard(number) for number in TELLTALE], []
    engine = Threads(shards, n_jobs=2)
    run = engine.pool.run
    monkeypatch.setattr(engine.pool, "run", lambda work, n: asked.append(n) or run(work, n))

    def spin():
        end = time.thread_time() + 3e-2
        while time.thread_time() < end:
            pass

    try:
        for before in (None, None, spin, spin):
            shards[0].before = before
            assert engine.run(FakeShard.piece).tolist() == TELLTALE
        engine.run(FakeShard.other_piece)
    finally:
        engine.close()
    assert asked == [
        2,
        1,
        1,
        2,
        2,
    ]  # what takes long is known after its first round, and of another operation nothing is


def test_closing_ends_the_threads_and_a_later_operation_starts_them_again():
    engine = Threads(late_first_shard(TELLTALE), n_jobs=2)
    before = threading.active_count()
    for _ in range(2):
        assert engine.run(FakeShard.piece).tolist() == TELLTALE
        assert threading.active_count() > before
        engine.close()
        assert threading.active_count() == before


@pytest.mark.parametrize("repeated", [Shard.add, Shard.replace], ids=repr)
def test_an_operation_repeated_with_its_step_number_does_nothing(repeated):
    problem = Problem(signs(), Logistic(), dtype=np.float64)
    u, v = (np.full(size, size**-0.5) for size in problem.shape)
    problem.add(1.0, 50.0, u, v)
    if repeated is Shard.replace:
        problem.replace(np.array([30.0]))
    arguments = (0.5, 20.0) if repeated is Shard.add else (np.zeros(8), *problem.point.padded[1:])

    def value():
        return problem.engine.run(Shard.evaluate)[0]

    before = value()
    problem.engine.run(repeated, problem.current.version, *arguments)
    assert value() == before
    problem.engine.run(repeated, problem.current.version + 1, *arguments)
    assert value() != before
    problem.close()


def forked_fit():
    """A digest of this process's fit, then of a child's, which was forked after it."""
    print(digest(CONFIGURATIONS[1], n_jobs=2), flush=True)
    context = get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(digest(CONFIGURATIONS[1], n_jobs=2)))
    child.start()
    child.join(100)
    if child.exitcode != 0:
        child.kill()
        sys.exit(f"The child ended with {child.exitcode}.")
    print(answers.get())


if __name__ == "__main__":
    if sys.argv[1] == "fork":
        forked_fit()
    else:
        print(*(digest(configuration) for configuration in CONFIGURATIONS))
