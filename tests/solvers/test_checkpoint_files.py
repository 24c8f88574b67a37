"""Checkpoints as files: what is refused and in which words, what falls back, what a disk that fails leaves behind."""

import copy
import errno
import io
import json
import logging
import math
import os
import random
import subprocess
import sys
import textwrap
import tracemalloc
import zipfile

import numpy as np
import pytest
from fits import FEW, Killed, Plain, digest, entries, fit, killed_after, spoil, stopped
from helpers import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rankwise
from rankwise import Checkpoint, CheckpointError, Observations, Problem, Ridged, SettingError, solve
from rankwise._digests import checksum
from rankwise.engines import Offsets
from rankwise.losses import Absolute, Huber, Logistic, Square
from rankwise.solvers import GreedyPursuit, Solver, checkpoint
from rankwise.solvers.history import StepReport
from rankwise.storage.archive import DAMAGE, read_arrays, seal, write_arrays
from rankwise.storage.trees import Packer, UnknownPart, Unpacker


def checkpoints(folder):
    """The newest last."""
    return sorted(folder.glob("step-*.checkpoint"))


# A damaged one.


def flip(path):
    found = bytearray(path.read_bytes())
    found[len(found) // 2] ^= 1
    path.write_bytes(found)


SPOILT = {
    "a bit": flip,
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "nothing": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(random.Random(0).randbytes(5000)),
    "sealed garbage": lambda path: spoil(path, lambda about: about.update(run=[1, {"list": "no"}])),
    "no run": lambda path: spoil(path, lambda about: about.pop("run")),
    "another run": lambda path: spoil(path, lambda about: about["run"]["fields"].update(state={"class": "x"})),
    "no arrays": lambda path: spoil(path, lambda about: None, dict.clear),
    "nan": lambda path: spoil(path, lambda about: None, lambda arrays: arrays.update(array0=np.full(5, np.nan))),
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_a_damaged_last_one_falls_back_to_the_one_before_and_says_so(spoilt, tmp_path, caplog):
    stopped("economic", tmp_path, 4)
    before, last = checkpoints(tmp_path)
    spoilt(last)
    found = fit("economic", checkpoint=Checkpoint(tmp_path, every=1, resume=True))
    assert digest(found) == digest(fit("economic"))
    assert f"{last.name} is damaged; using {before.name}" in caplog.text


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_damaged_ones_alone_are_refused_and_stay(spoilt, tmp_path):
    stopped("economic", tmp_path, 4)
    for path in checkpoints(tmp_path):
        spoilt(path)
    with pytest.raises(CheckpointError, match=r"can be read \(step-00000003.checkpoint, step-00000002.checkpoint\)"):
        fit("economic", checkpoint=Checkpoint(tmp_path, resume=True))
    assert len(checkpoints(tmp_path)) == 2


def test_a_damaged_one_goes_when_two_sound_ones_stand(tmp_path):
    stopped("economic", tmp_path, 4)
    before, last = checkpoints(tmp_path)
    far = tmp_path / "step-00000077.checkpoint"
    far.write_bytes(b"damaged")
    last.unlink()
    seen = []
    fit(
        "economic",
        checkpoint=Checkpoint(tmp_path, every=1, resume=True),
        callback=lambda record: seen.append(checkpoints(tmp_path)),
    )
    assert seen[0] == [before, far] and far not in seen[1] and before in seen[1]


def test_unfinished_ones_are_no_checkpoints_and_are_deleted(tmp_path):
    stopped("economic", tmp_path, 3)
    unfinished = tmp_path / ".step-00000009.checkpoint.abcdefgh"
    unfinished.write_bytes(b"half")
    assert digest(fit("economic", checkpoint=Checkpoint(tmp_path, resume=True))) == digest(fit("economic"))
    assert not unfinished.exists()


TINY = Observations.from_coo([0, 1, 2, 2], [0, 1, 1, 0], [1.0, 2.0, -1.0, 0.5])


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A small checkpoint as bytes, and what reads such bytes as the only checkpoint of the same fit."""
    problem, solver, folder = Problem(TINY, Square()), GreedyPursuit("none", FEW), tmp_path_factory.mktemp("small")
    solve(problem, solver, rank=1, checkpoint=folder)
    first, last = checkpoints(folder)
    first.unlink()
    keeper = checkpoint.open_folder(Checkpoint(folder, resume=True))
    keeper.identify(problem, solver, rank=1, random_state=0, held_out=None, start=None)

    def read(content):
        last.write_bytes(content)
        return keeper.restored(problem, solver)

    yield last.read_bytes(), read
    keeper.close()


def test_one_that_is_cut_anywhere_is_refused(reader):
    whole, read = reader
    assert len(read(whole).history) == 1
    for length in range(len(whole)):
        with pytest.raises(CheckpointError, match="can be read"):
            read(whole[:length])


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_one_with_any_bit_flipped_is_refused(reader, data):
    whole, read = reader
    found = bytearray(whole)
    bit = data.draw(st.integers(0, 8 * len(found) - 1))
    found[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CheckpointError, match="can be read"):
        read(bytes(found))


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name_and_before_older_ones_go(tmp_path, monkeypatch):
    calls = []
    for module, name in ((os, "fsync"), (os, "replace"), (type(tmp_path), "unlink")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, real=real, name=name, **k: (calls.append(name), real(*a, **k))[1])
    fit("economic", checkpoint=Checkpoint(tmp_path, every=1))
    sync = ["fsync", "replace", "fsync"]  # its bytes, its name, and the folder that has the name
    assert calls == 2 * sync + 4 * [*sync, "unlink"]


# Of another fit.


def other_targets(observations):
    targets = observations.targets.copy()
    targets[7] *= -1
    return Observations(observations.indptr, observations.indices, targets, observations.shape)


def other_pattern(observations):
    indices = observations.indices.copy()
    row = next(k for k in range(30) if 0 < observations.indptr[k + 1] - observations.indptr[k] < 22)
    lo, hi = (int(end) for end in observations.indptr[row : row + 2])
    free = sorted(set(range(22)) - set(indices[lo:hi].tolist()))[-1]
    indices[lo:hi] = sorted([*indices[lo : hi - 1].tolist(), free])
    return Observations(observations.indptr, indices, observations.targets, observations.shape)


def weighed(observations):
    parts = observations.indptr, observations.indices, observations.targets, observations.shape
    return Observations(*parts, weights=np.full(observations.n_observed, 0.9))


def labelled(observations):
    names = np.array([f"row {k}" for k in range(observations.shape[0])], object)
    parts = observations.indptr, observations.indices, observations.targets, observations.shape
    return Observations(*parts, labels=(names, None))


ONE, SIGNS = entries(Logistic()), Logistic()
AGAIN = {  # how a fit is repeated, and what is said of it
    "targets": (lambda: Problem(other_targets(ONE), SIGNS), {}, "entries differ"),
    "pattern": (lambda: Problem(other_pattern(ONE), SIGNS), {}, "entries differ"),
    "weights": (lambda: Problem(weighed(ONE), SIGNS), {}, "entries differ"),
    "fewer": (
        lambda: Problem(entries(SIGNS, seed=5), SIGNS),
        {},
        rf"number of entries is \d+ and was {ONE.n_observed}",
    ),
    "shape": (lambda: Problem(entries(SIGNS, 0, (31, 22)), SIGNS), {}, r"shape is \[31, 22\] and was \[30, 22\]"),
    "labels": (lambda: Problem(labelled(ONE), SIGNS), {}, "labels differ"),
    "loss": (lambda: Problem(ONE, Square()), {}, r"loss is 'Square\(\)' and was 'Logistic\(\)'"),
    "dtype": (lambda: Problem(ONE, SIGNS, dtype="float64"), {}, "dtype is 'float64' and was 'float32'"),
    "ridge": (lambda: Ridged(Problem(ONE, SIGNS), 0.5), {}, "ridge is 0.5 and was None"),
    "offsets": (lambda: Problem(ONE, SIGNS, offsets=Offsets.zero((30, 22))), {}, "offsets differ"),
    "rank": (lambda: Problem(ONE, SIGNS), {"rank": 6}, "rank is 6 and was 5"),
    "seed": (lambda: Problem(ONE, SIGNS), {"random_state": 3}, "random_state is 3 and was 0"),
    "method": (lambda: Problem(ONE, SIGNS), {"method": GreedyPursuit("none", FEW)}, "solver is .*'none'.* and was "),
}


@pytest.mark.parametrize(("problem", "options", "said"), AGAIN.values(), ids=AGAIN)
def test_other_data_and_settings_are_refused_with_what_differs(problem, options, said, tmp_path):
    stopped("economic", tmp_path, 3)
    before = [path.read_bytes() for path in checkpoints(tmp_path)]
    wanted = {"method": GreedyPursuit("economic", FEW), "rank": 5, **options}
    with pytest.raises(CheckpointError, match=f"of another fit: {said}"):
        solve(problem(), checkpoint=Checkpoint(tmp_path, resume=True), **wanted)
    assert [path.read_bytes() for path in checkpoints(tmp_path)] == before


def test_losses_are_told_apart_by_their_numbers_and_their_code():
    def made(curve):
        return rankwise.loss(lambda x, o: curve * (x - o) ** 2, smooth=True)

    def other():
        return rankwise.loss(lambda x, o: 2.0 * abs(x - o), smooth=True)

    assert len({loss.checksum() for loss in (Huber(0.5), Huber(1.0), Square(), made(1.0), made(2.0), other())}) == 6
    assert Huber(0.5).checksum() == Huber(np.float64(0.5)).checksum() and made(2.0).checksum() == made(2.0).checksum()


def test_labels_have_the_same_checksum_in_another_process():
    """Words are looked at, not the places in memory where they are."""
    source = (
        "import numpy as np; from rankwise._digests import checksum; print(checksum(np.array(['a', 1], object)).hex())"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == checksum(np.array(["a", 1], object)).hex()
    assert checksum(np.array(["a", 2], object)) != checksum(np.array(["a", 1], object))


def test_a_later_format_asks_for_an_update(tmp_path):
    stopped("economic", tmp_path, 3)
    spoil(checkpoints(tmp_path)[-1], lambda about: about.update(version=2))
    with pytest.raises(
        CheckpointError, match=r"of format 2; this version of rankwise reads checkpoints up to format 1"
    ):
        fit("economic", checkpoint=Checkpoint(tmp_path, resume=True))


def test_another_version_of_rankwise_goes_on_if_it_can_and_says_so(tmp_path, caplog):
    stopped("economic", tmp_path, 3)
    spoil(checkpoints(tmp_path)[-1], lambda about: about.update(rankwise="0.0.1"))
    assert digest(fit("economic", checkpoint=Checkpoint(tmp_path, resume=True))) == digest(fit("economic"))
    assert "was written by rankwise 0.0.1" in caplog.text


def test_another_version_whose_parts_are_others_is_refused(tmp_path):
    stopped("economic", tmp_path, 3)
    spoil(checkpoints(tmp_path)[-1], lambda about: (about.update(rankwise="9.9"), about["run"]["fields"].pop("first")))
    with pytest.raises(CheckpointError, match=r"written by rankwise 9.9, and .* cannot resume from it"):
        fit("economic", checkpoint=Checkpoint(tmp_path, resume=True))


# Settings.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"folder": 3}, "`checkpoint` must be the path of a folder, or a `Checkpoint`, got 3"),
        ({"folder": None}, "`checkpoint` must be the path of a folder, or a `Checkpoint`, got None"),
        ({"folder": "x", "every": 0}, "`every` must be a positive integer or None, got 0"),
        ({"folder": "x", "every": 1.5}, "`every` must be a positive integer or None, got 1.5"),
        ({"folder": "x", "resume": "yes"}, "`resume` must be True or False, got 'yes'"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, said):
    with pytest.raises(SettingError, match=said):
        Checkpoint(**options)


def test_solve_refuses_what_is_no_folder():
    with pytest.raises(SettingError, match="`checkpoint` must be the path of a folder, or a `Checkpoint`, got 3"):
        fit("economic", checkpoint=3)


@pytest.mark.parametrize("method", ["admm", "wiberg"])
def test_solvers_that_write_no_checkpoints_say_so(method, tmp_path):
    with pytest.raises(SettingError, match=r"(ADMM|Wiberg) does not support checkpoints"):
        solve(Problem(entries(Absolute()), Absolute()), method, rank=2, checkpoint=tmp_path)


class Odd(Solver):
    """A user's solver, whose state is what it is told."""

    def __init__(self, state):
        self.state = state

    def init(self, objective, rank):
        objective.reset()
        return copy.deepcopy(self.state)

    def step(self, objective, rng, state):
        if isinstance(state, dict):
            state["n"] += 1
        objective.add(0.5, float(rng.random()), *(rng.standard_normal(size) for size in objective.shape))
        return StepReport(value=float(np.sum(state["n"])) if isinstance(state, dict) else None)


def test_a_solver_of_ones_own_is_checkpointed_if_its_state_is_plain(tmp_path):
    def run(state, folder=None, resume=False, **options):
        kept = None if folder is None else Checkpoint(folder, every=1, resume=resume)
        return solve(Problem(entries(Square()), Square()), Odd(state), rank=4, checkpoint=kept, **options)

    plain = {"n": np.arange(3), "words": ["a", ("b", None)], "seen": {"x": np.float32(0.1)}}
    with pytest.raises(Killed):
        run(plain, tmp_path / "a", callback=killed_after(3))
    assert digest(run(plain, tmp_path / "a", resume=True)) == digest(run(plain))
    with pytest.raises(SettingError, match="The state of Odd contains a set, which a checkpoint cannot store"):
        run({"n": 1, "no": {1, 2}}, tmp_path / "b")


def test_an_objective_of_ones_own_says_what_it_lacks(tmp_path):
    with pytest.raises(SettingError, match="Plain does not support checkpoints, which require `fingerprint`"):
        solve(Plain(Problem(entries(Square()), Square())), rank=2, checkpoint=tmp_path)


# A disk that fails, and a folder that is taken.


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(CheckpointError, match=r"cannot be written to .*: there is a file of that name"):
            fit("economic", checkpoint=path)
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(os.name != "posix", reason="needs users of the system")
def test_a_folder_that_is_read_only_is_refused(tmp_path):
    before, me = fit("economic"), os.geteuid()
    tmp_path.chmod(0o500)
    try:
        if me == 0:
            os.seteuid(65534)  # root may write anywhere
        with pytest.raises(CheckpointError, match=r"cannot be written to .*: permission denied"):
            fit("economic", checkpoint=tmp_path / "new")
    finally:
        os.seteuid(me)
        tmp_path.chmod(0o700)
    assert digest(fit("economic", checkpoint=tmp_path / "new")) == digest(before)


def test_a_disk_that_is_full_from_the_start_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"cannot be written to .*: no space left on device"):
        fit("economic", checkpoint=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def full(handle):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_fills_up_later_costs_checkpoints_and_not_the_fit(tmp_path, monkeypatch, caplog):
    """Said once; what was written stays, and is gone on from."""

    def fill_up(record):
        if record.step == 2:
            monkeypatch.setattr(os, "fsync", full)

    found = fit("economic", checkpoint=Checkpoint(tmp_path, every=1), callback=fill_up)
    assert digest(found) == digest(fit("economic"))
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == [
        "no checkpoint of step 2: no space left on device; the fit continues, and step-00000001.checkpoint remains"
    ]
    assert [path.name[5:13] for path in checkpoints(tmp_path)] == ["00000000", "00000001"]
    assert sorted(path.name for path in tmp_path.iterdir())[0] == "lock"  # no temporary file is left
    monkeypatch.undo()
    assert digest(fit("economic", checkpoint=Checkpoint(tmp_path, resume=True))) == digest(found)


def child(body, *arguments):
    """A script run by itself, in this folder's place; with what it wrote."""
    source = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\n" + textwrap.dedent(body)
    command = [sys.executable, "-c", source, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.mark.skipif(os.name != "posix", reason="needs limits of the system")
def test_a_write_that_the_system_cuts_short_leaves_what_was_there(tmp_path):
    """A real limit on the size of files, which the later checkpoints pass: they are larger."""
    done = child(
        """
        import resource, signal, sys, logging
        from pathlib import Path
        from fits import fit, digest
        from rankwise import Checkpoint
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        folder = Path(sys.argv[1])
        whole = fit("economic")

        def limit(record):
            if record.step == 2:
                size = (folder / "step-00000001.checkpoint").stat().st_size
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, resource.RLIM_INFINITY))

        found = fit("economic", checkpoint=Checkpoint(folder, every=1), callback=limit)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(sorted(path.name for path in folder.iterdir()))
        again = fit("economic", checkpoint=Checkpoint(folder, resume=True))
        print(digest(found) == digest(whole), digest(again) == digest(whole))
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "['lock', 'step-00000000.checkpoint', 'step-00000001.checkpoint']",
        "True True",
    ]
    assert done.stderr.count("no checkpoint of step") == 1 and "file too large" in done.stderr


def test_a_folder_that_another_process_writes_to_is_refused(tmp_path):
    ask = """
        import sys
        from rankwise.solvers.checkpoint import Checkpoint, open_folder
        open_folder(Checkpoint(sys.argv[1], resume=True))
        """
    seen = []
    fit("economic", checkpoint=tmp_path, max_iter=1, callback=lambda record: seen.append(child(ask, tmp_path)))
    assert "CheckpointError: Another fit is writing checkpoints to" in seen[0].stderr
    assert child(ask, tmp_path).returncode == 0


def test_a_folder_that_another_fit_of_this_process_writes_to_is_refused(tmp_path):
    tries = []

    def second(record):
        with pytest.raises(CheckpointError, match="Another fit is writing checkpoints to") as refused:
            fit("economic", checkpoint=Checkpoint(tmp_path, resume=True))
        tries.append(refused)

    whole = fit("economic")
    found = fit("economic", checkpoint=Checkpoint(tmp_path, every=1), callback=second)
    assert len(tries) == len(whole.history) > 1 and digest(found) == digest(whole)  # also after it was asked once
    assert digest(fit("economic", checkpoint=Checkpoint(tmp_path, resume=True))) == digest(whole)


# Trees: what comes back is what went in, and nothing else can be made.

NUMBERS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    *(hnp.from_dtype(np.dtype(kind)) for kind in ("f4", "f8", "i4", "i8", "u4", "?")),
)  # fmt: skip
ARRAYS = st.sampled_from(["f4", "f8", "i8", "u4", "?"]).flatmap(
    lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
)
PARTS = st.recursive(
    NUMBERS | ARRAYS | ARRAYS.map(np.asfortranarray),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Offsets, st.floats(), ARRAYS, ARRAYS)
    ),
    max_leaves=12,
)
CLASSES = {"Offsets": Offsets}


def same(one, two):
    """Equal in type, bits and memory order, all the way down."""
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        alike = one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
        return alike and one.flags.c_contiguous == two.flags.c_contiguous
    if isinstance(one, np.generic):
        return one.dtype == two.dtype and np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
    if isinstance(one, Offsets):
        one, two = vars(one), vars(two)
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return repr(one) == repr(two)


def through_a_file(thing, outside=None):
    packer = Packer(CLASSES, outside or {})
    tree, file = json.dumps(packer.plain(thing)), io.BytesIO()
    np.savez(file, **packer.arrays)
    seal(file)
    arrays = read_arrays(file)
    known = {name: lambda found=found: found for name, found in (outside or {}).items()}
    return Unpacker(CLASSES, known, arrays).thing(json.loads(tree))


@settings(max_examples=300, deadline=None)
@given(PARTS)
def test_what_comes_back_from_a_tree_is_what_went_in(thing):
    assert same(through_a_file(thing), thing)


def test_what_was_one_object_is_one_again_and_what_is_outside_is_not_written():
    array, engine = np.arange(3.0), object()
    level = Offsets(1.0, array, array)
    first, (second, rows), third = through_a_file([level, (level, array), engine], {"engine": engine})
    assert first is second and first.rows is first.cols is rows and third is engine


@pytest.mark.parametrize("thing", [object(), {1, 2}, {1: 2}, b"x", 1j, np.array([None]), np.array("x"), len, Square()])
def test_a_tree_holds_nothing_else(thing):
    with pytest.raises(UnknownPart):
        Packer(CLASSES, {}).plain([thing])


def test_only_known_classes_are_made_with_their_fields_and_types():
    good = {"constant": 1.0, "rows": {"array": "a"}, "cols": {"array": "a"}}

    def read(name="Offsets", **changes):
        parts = {key: value for key, value in {**good, **changes}.items() if value is not ...}
        return Unpacker(CLASSES, {}, {"a": np.zeros(2)}).thing({"class": name, "fields": parts})

    assert isinstance(read(), Offsets)
    wrong = [{"constant": "x"}, {"constant": True}, {"constant": None}, {"rows": 1.0}, {"rows": {"list": []}}]
    wrong += [{"rows": ...}, {"more": 1}, {"name": "Side"}, {"name": "os.system"}, {"rows": {"array": "b"}}]
    for changes in wrong:
        with pytest.raises((ValueError, KeyError)):
            read(**changes)


N_ODD = 60
ODDITIES = [
    *(
        None,
        True,
        -1,
        0,
        3,
        10**6,
        -0.5,
        math.nan,
        math.inf,
        "x",
        [],
        {},
        {"list": []},
        {"tuple": [1, 2]},
        {"dict": {}},
    ),
    *(
        {"array": "array0"},
        {"array": "array1"},
        {"same": 0},
        {"same": 99},
        {"outside": "engine"},
        {"outside": "across"},
    ),
    *({"outside": "__class__"}, {"number": ["float64", "a"]}, {"number": ["object", 1]}, {"number": ["int32", 10**20]}),
    *({"class": "Side", "fields": {}}, {"class": "ProximalState", "fields": {}}, {"list": [{"array": "array0"}] * 2}),
]


def places(tree, before=()):
    """Ways to all nodes of a tree."""
    yield before
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, part in inner:
        yield from places(part, (*before, key))


def changed(tree, rng):
    """The tree with one node replaced by something odd, or left out."""
    tree = copy.deepcopy(tree)
    *way, last = rng.choice([place for place in places(tree) if place])
    node = tree
    for key in way:
        node = node[key]
    if rng.random() < 0.15 and isinstance(node, dict):
        del node[last]
    else:
        node[last] = copy.deepcopy(rng.choice(ODDITIES))
    return tree


def odd_array(arrays, rng):
    """One array of another shape, type or content."""
    name = rng.choice(sorted(arrays))
    old = arrays[name]
    ways = [
        old[:-1] if old.ndim else old,
        old[..., :0],
        np.zeros(0),
        old.astype("i8"),
        np.full(old.shape, np.nan, old.dtype),
    ]
    arrays[name] = rng.choice([*ways, old.astype("f4"), old.T, np.repeat(old, 2, axis=0) if old.ndim else old, -old])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["economic", "coefficients", "ridge", "nonsmooth", "ais-impute", "altmin", "bayes"])
def test_a_sealed_file_with_odd_parts_is_refused_or_used_and_nothing_worse(name, tmp_path):
    """A file that someone has made on purpose: all of its parts are looked at before a kernel sees them."""
    stopped(name, tmp_path, 3)
    rng, outcomes = random.Random(name), set()
    last = checkpoints(tmp_path)[-1].read_bytes()
    for k in range(N_ODD):
        for path in checkpoints(tmp_path):
            path.unlink()
        path = tmp_path / "step-00000002.checkpoint"
        path.write_bytes(last)
        if k % 3:
            spoil(path, lambda about: about.update(run=changed(about["run"], rng)))
        else:
            spoil(path, lambda about: None, lambda arrays: odd_array(arrays, rng))
        with np.errstate(all="ignore"):
            try:
                fit(name, checkpoint=Checkpoint(tmp_path, every=100, resume=True))
                outcomes.add("used")
            except CheckpointError:
                outcomes.add("refused")
    assert outcomes == {"used", "refused"}


# Files of arrays take no more memory than they hold.


def packed(*members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    seal(file)
    return file.getvalue()


def array_bytes(array, **header):
    """An array as NumPy writes it, with another header if wanted."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {**np.lib.format.header_data_from_array_1_0(array), **header})
    return file.getvalue() + array.tobytes()


def overlapping(n):
    """Many names for one and the same part of the file."""
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("a0.npy", array_bytes(np.zeros(100_000)))
        (only,) = archive.infolist()
        for k in range(1, n):
            twin = copy.copy(only)
            twin.filename = twin.orig_filename = f"a{k}.npy"
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
        archive._didModify = True
    seal(file)
    return file.getvalue()


def nested(size, depth):
    """Arrays that hold each other's parts of the file: together they are `depth` times as large as it."""
    inside, known = b"", []
    for k in range(depth):
        file, held = io.BytesIO(), np.frombuffer(inside or bytes(size), np.uint8)
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(f"array{k}.npy", array_bytes(held))
            own = archive.filelist[0]
            shift = archive.fp.tell() - len(inside)
            inside = file.getvalue()
            for each in known:
                each.header_offset += shift
            archive.filelist += known
        known.append(own)
    seal(file)
    return file.getvalue()


BOMBS = {
    "compressed": packed(("U.npy", array_bytes(np.zeros(10_000_000))), compression=zipfile.ZIP_DEFLATED),
    "a shape that lies": packed(("U.npy", array_bytes(np.zeros(10), shape=(10_000_000,)))),
    "a type that lies": packed(("U.npy", array_bytes(np.zeros(10), shape=(10,), descr="<U10000000"))),
    "negative sizes": packed(("U.npy", array_bytes(np.zeros(10), shape=(-2, -5)))),
    "rows without bytes": packed(("U.npy", array_bytes(np.zeros((10, 0)), shape=(10**12, 0)))),
    "a shape too short": packed(("U.npy", array_bytes(np.zeros(10), shape=(9,)))),
    "overlapping parts": overlapping(500),
    "one name twice": packed(("U.npy", array_bytes(np.zeros(3))), ("V.npy", array_bytes(np.zeros(3)))).replace(
        b"V.npy", b"U.npy"
    ),
    "objects": packed(("U.npy", array_bytes(np.zeros(10), descr="|O"))),
    "fields": packed(("U.npy", array_bytes(np.zeros(10), descr=[("a", "<f8")]))),
    "no array": packed(("U.txt", b"hello")),
    "nested": nested(1_000_000, 12),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_no_file_makes_the_reader_take_more_memory_than_it_holds(bomb, tmp_path):
    path = tmp_path / "step-00000001.checkpoint"
    path.write_bytes(bomb)
    observations = Problem(entries(Square()), Square())
    tracemalloc.start()
    try:
        with pytest.raises(rankwise.ModelFileError):
            rankwise.load(path)
        with pytest.raises(CheckpointError, match="can be read"):
            solve(observations, rank=2, checkpoint=Checkpoint(tmp_path, resume=True))
        with path.open("rb") as file, pytest.raises(DAMAGE):
            read_arrays(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(bomb) + 3_000_000


def test_plain_files_are_read_as_numpy_reads_them(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3).T, "b": np.array(["x", "yz"]), "c": np.zeros((4, 0)), "d": np.array(3)}
    write_arrays(tmp_path / "file", arrays)
    with (tmp_path / "file").open("rb") as file, np.load(tmp_path / "file") as plain:
        found = read_arrays(file)
        assert list(found) == list(arrays) and all(same(found[name], plain[name]) for name in arrays)


@pytest.mark.parametrize("array", [np.arange(5.0), np.zeros(0), np.array(3)], ids=["several", "none", "one"])
def test_a_file_whose_digest_was_made_after_the_damage_has_the_checksums_of_its_parts(array):
    file = io.BytesIO()
    np.savez(file, part=array)
    whole = file.getvalue()
    start = whole.index(b"\x93NUMPY")
    for at in range(start, start + 128 + array.nbytes):
        flipped = bytearray(whole)
        flipped[at] ^= 1
        damaged = io.BytesIO(flipped)
        seal(damaged)
        with pytest.raises(DAMAGE):
            read_arrays(damaged)
    with pytest.raises(ValueError, match="digest"):
        read_arrays(io.BytesIO(whole))  # it has none
