"""Wrong kinds of input, wherever they come in, end in one sentence of ours."""

import numpy as np
import pandas as pd
import pytest

import rankwise as rw
from rankwise.losses import EpsilonInsensitive, Huber, Ordinal, Quantile
from rankwise.solvers import Coefficients, Economic, NonsmoothPursuit

ARRAY = np.arange(6.0).reshape(2, 3)
FOUR = rw.Observations.from_dense(ARRAY)


def parts(**changed):
    """The parts of a sound CSR pattern, some of them spoilt."""
    sound = {"indptr": FOUR.indptr, "indices": FOUR.indices, "targets": FOUR.targets, "shape": FOUR.shape}
    return lambda: rw.Observations(**sound | changed)


def labelled(labels):
    return lambda: rw.Observations.from_labels(labels, [0, 1], [1.0, 2.0])


WRONG = {
    "row starts too far": parts(indptr=np.array([0, 3, 7], np.uint64)),
    "row starts fall": parts(indptr=np.array([0, 7, 6], np.uint64)),
    "column outside": parts(indices=np.array([0, 1, 2, 0, 1, 3], np.uint32)),
    "unsorted row": parts(indices=np.array([1, 0, 2, 0, 1, 2], np.uint32)),
    "repeated column": parts(indices=np.array([0, 0, 2, 0, 1, 2], np.uint32)),
    "signed indices": parts(indices=FOUR.indices.astype(np.int64)),
    "too few targets": parts(targets=np.ones(5)),
    "NaN target": parts(targets=np.full(6, np.nan)),
    "negative weight": parts(weights=np.full(6, -1.0)),
    "ids for numbers": lambda: rw.Observations.from_coo([3_000_000_000, 1], [0, 1], [1.0, 2.0]),
    "huge shape": lambda: rw.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0], shape=(2**31, 2)),
    "missing label": lambda: rw.Observations.from_labels([1.0, np.nan], [0, 1], [1.0, 2.0]),
    "structured labels": labelled(np.array([(1, 2), (3, 4)], dtype="i8,i8")),
    "labels of raw bytes": labelled(np.array([b"ab", b"cd"], dtype="V2")),
    "complex labels": labelled([1j, 2j]),
    "labels in two columns": labelled([[1, 2], [3, 4]]),
    "labels that are lists": labelled([[1], [2, 3]]),
    "labels that are objects": labelled([object(), object()]),
    "labels of two types": labelled(np.array([1, "a"], object)),
    "missing text": labelled(np.array(["a", np.nan], np.dtypes.StringDType(na_object=np.nan))),
    "pairs that are lists": lambda: rw.MatrixCompletion().fit([[[1], 0], [[2, 3], 1]], [1.0, 2.0]),
    "pairs of two types": lambda: rw.MatrixCompletion().fit([[1, 0], ["a", 1]], [1.0, 2.0]),
    "shards with labels of two types": lambda: rw.write_shards([([1, "a"], [0, 1], [1.0, 2.0])], "never-written"),
    "shards of a word": lambda: rw.write_shards([("ab", [0, 1], [1.0, 2.0])], "never-written"),
    "huge integer in an array": lambda: rw.MatrixCompletion().fit([[10**400, 1.0], [1.0, 2.0]]),
    "huge integer in a frame": lambda: rw.MatrixCompletion().fit(pd.DataFrame({"a": [10**400, 1], "b": [1.0, 2.0]})),
    "huge integer as target": lambda: rw.MatrixCompletion().fit([[0, 1], [1, 0]], [10**400, 1.0]),
    "huge integer as value": lambda: rw.Observations.from_coo([0, 1], [0, 1], [10**400, 1.0]),
    "huge integer as weight": lambda: rw.Observations.from_coo([0], [0], [1.0], weights=[10**400]),
    "huge integer as row": lambda: rw.Observations.from_coo([10**400], [0], [1.0]),
    "huge integer as class": lambda: rw.SignedLinkPredictor().fit([[0, 1], [1, 0]], [10**400, -1]),
    "huge integer in a table": lambda: rw.LowRankImputer().fit(np.array([[10**400, 1], [1, None], [2, 3]], object)),
    "huge response": lambda: rw.MultitaskRegression([np.ones((2, 1))], [[10**400, 1.0]]),
    "huge ridge": lambda: rw.MatrixCompletion(method="eglrl", rank=1, ridge=10**400).fit(FOUR),
    "huge time limit": lambda: rw.MatrixCompletion(rank=1, time_limit=10**400).fit(FOUR),
    "huge spread of targets": lambda: rw.MatrixCompletion("square", method="factors").fit([[1e300, 1], [2, 3e300]]),
    "levels beyond memory": lambda: Ordinal(10**400),
    "levels of targets beyond memory": lambda: Ordinal.from_targets([0, 1e12]),
    "entry number": lambda: FOUR.take([0, 6]),
    "entry fraction": lambda: FOUR.take([0.5]),
    "Huber": lambda: Huber("a"),
    "Quantile": lambda: Quantile(None),
    "EpsilonInsensitive": lambda: EpsilonInsensitive("a"),
    "lipschitz": lambda: rw.loss(lambda x, o: abs(x - o), smooth=True, lipschitz="a"),
    "smooth": lambda: rw.loss(lambda x, o: abs(x - o), smooth="no"),
    "keep_ratio": lambda: NonsmoothPursuit(keep_ratio="a"),
    "shrinkage": lambda: NonsmoothPursuit(shrinkage="a"),
    "ridge": lambda: rw.MatrixCompletion(ridge=-1).fit(FOUR),
    "no iteration": lambda: Economic(0),
    "half an iteration": lambda: Coefficients(0.5),
    "no problem": lambda: rw.solve(ARRAY),
    "no observations": lambda: rw.Problem("ratings.csv", "square"),
    "held out text": lambda: rw.solve(rw.Problem(FOUR, "square"), held_out="test.csv"),
    "score by name": lambda: rw.solve(rw.Problem(FOUR, "square"), held_out=FOUR, score="rmse"),
    "no steps": lambda: rw.solve(rw.Problem(FOUR, "square"), max_iter=0),
    "one and a half steps": lambda: rw.solve(rw.Problem(FOUR, "square"), max_iter=1.5),
    "no folder": lambda: rw.MatrixCompletion(rank=1).fit(FOUR).save("no-such-folder/model.rankwise"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_it_is_refused_in_one_sentence(wrong):
    with pytest.raises(rw.RankwiseError) as caught:
        wrong()
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message


def test_the_callers_arrays_stay_writeable():
    indptr, indices, targets = FOUR.indptr.copy(), FOUR.indices.copy(), FOUR.targets.copy()
    made = rw.Observations(indptr, indices, targets, FOUR.shape)
    assert indptr.flags.writeable and indices.flags.writeable and targets.flags.writeable
    assert not made.targets.flags.writeable


def test_errors_on_labelled_data_speak_in_labels():
    with pytest.raises(rw.DataError, match=r"\(row ann, column film\) is given more than once"):
        rw.Observations.from_labels(["ann", "bob", "ann"], ["film", "book", "film"], [1.0, 2.0, 3.0])
    model = rw.MatrixCompletion(rank=1).fit(rw.Observations.from_labels(["ann", "bob"], ["film", "book"], [1.0, 2.0]))
    with pytest.raises(rw.DataError, match=r"first: 'cid'\); only rows that were given to `fit`"):
        model.predict_entries(["cid"], ["film"])


def test_a_problem_takes_what_an_estimator_takes():
    assert rw.Problem(ARRAY, "square").observations.n_observed == 6
    scored = rw.solve(
        rw.Problem(ARRAY, "square"), rank=1, held_out=ARRAY, score=lambda targets, predicted: targets.size
    )
    assert scored.history[-1].score == 6


def test_a_passes_count_is_the_work_of_the_best_step():
    problem = rw.Problem(np.random.default_rng(0).normal(size=(20, 15)), "l1")
    before = problem.passes
    result = rw.solve(problem, NonsmoothPursuit(max_inner_rank=1), rank=3)
    searched = result.history.column("n_evaluations").sum()
    assert 3 <= searched < problem.passes - before
