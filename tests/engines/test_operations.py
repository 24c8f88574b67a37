"""Operations are declared once: engines, messages and the docs read the declarations."""

import inspect
import pickle
import re

import numpy as np
import pytest
from helpers import ROOT, make_observations

from rankwise import Problem
from rankwise.engines import Join, Operation, Shard, operation, operations_of
from rankwise.losses import Square

OPERATIONS = list(operations_of(Shard))


def test_the_table_in_the_docs_is_that_of_the_declarations():
    lines = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("| operation |"))
    table = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, _, join, by_row, _ = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        table[name.strip("`")] = join, tuple(re.findall(r"`([^`]+)`", by_row))
    assert table == {each.name: (each.join.value, each.by_row) for each in OPERATIONS}


def test_every_public_method_of_a_shard_but_those_of_engines_is_an_operation():
    plain = {name for name, member in vars(Shard).items() if inspect.isfunction(member) and not name.startswith("_")}
    assert plain == {"run", "parts"} and all(each.__doc__ for each in OPERATIONS)


def test_every_argument_with_a_line_per_row_is_declared():
    """Operations that read rows from `start` to `stop` of an argument declare one, and no others do."""
    cutting = {each.name for each in OPERATIONS if "self.start" in inspect.getsource(each.method)}
    helped = {"terms", "curve_terms", "replace", "aim"}  # through _low_rank and _project_slopes
    sized_only = {"product", "gather", "twice"}
    assert (cutting | helped) - sized_only == {each.name for each in OPERATIONS if each.by_row}


@pytest.mark.parametrize("each", OPERATIONS, ids=repr)
def test_an_operation_is_pickled_by_name(each):
    assert pickle.loads(pickle.dumps(each)) is each and len(pickle.dumps(each)) < 100


def test_a_declaration_of_an_argument_that_is_not_there_is_refused():
    with pytest.raises(TypeError, match="has no argument w"):
        operation(Join.SUM, by_row=("v", "w.rows"))(lambda shard, v: v)


def test_an_operation_is_a_method_on_a_shard_and_joined_by_an_engine():
    observations = make_observations(Square(), np.random.default_rng(0), (9, 5), 0.7)
    problem = Problem(observations, Square(), dtype=np.float64, n_jobs=1)
    value = problem.value()
    (shard,) = problem.engine.shards
    assert isinstance(Shard.evaluate, Operation) and shard.evaluate()[0] == value
    assert problem.engine.run(Shard.evaluate)[0] == value
    v = np.arange(5.0)
    np.testing.assert_array_equal(problem.engine.run(Shard.product, v), shard.product(v))
    problem.close()
