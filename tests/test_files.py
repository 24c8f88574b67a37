"""Files appear complete with the mode of a new file, never through a link; pipes are refused and never waited for."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from report_cases import random_model

import rankwise as rw
from rankwise._files import file_lock, replacing
from rankwise.io import read_table
from rankwise.solvers import checkpoint

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes of POSIX")


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def small_files(n_bytes):
    """A limit on the size of files stands for a full disk."""
    resource = pytest.importorskip("resource")
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def save(path):
    with replacing(path, "w") as file:
        file.write("content")
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o027, 0o077])
def test_a_saved_file_has_the_mode_of_a_new_file_and_the_umask_is_never_touched(tmp_path, mask, monkeypatch):
    with umask(mask):
        (tmp_path / "new").touch()
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            assert save(tmp_path / "saved") == stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~mask


def test_saves_in_threads_leave_private_files_private(tmp_path):
    with umask(0o077), ThreadPoolExecutor(4) as pool:
        modes = pool.map(save, (tmp_path / f"{k % 50}" for k in range(2000)))
        assert set(modes) == {0o600}
    assert len(list(tmp_path.iterdir())) == 50


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("kept")
    for name, target in (("link", "elsewhere"), ("dangling", "nothing")):
        (tmp_path / name).symlink_to(tmp_path / target)
        save(tmp_path / name)
        assert not (tmp_path / name).is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "kept" and not (tmp_path / "nothing").exists()


def test_a_full_disk_is_reported_with_the_path_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "m.rankwise"
    path.write_text("old")
    with small_files(1000), pytest.raises(OSError) as caught:
        random_model().save(path)
    assert caught.value.filename == str(path) and str(path) in str(caught.value)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


# Locks and checkpoints in a folder that others may have prepared.


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_a_lock_that_is_a_link_or_a_pipe_is_refused_in_a_sentence(tmp_path, kind):
    folder, elsewhere = tmp_path / "checkpoints", tmp_path / "elsewhere"
    folder.mkdir()
    if kind == "link":
        elsewhere.write_text("kept")
    os.mkfifo(folder / "lock") if kind == "pipe" else (folder / "lock").symlink_to(elsewhere)
    with pytest.raises(OSError, match="link, a pipe or a device; remove it"):
        file_lock(folder / "lock")
    with pytest.raises(rw.CheckpointError, match="link, a pipe or a device; remove it"):
        checkpoint.open_folder(rw.Checkpoint(folder))
    assert elsewhere.exists() == (kind == "link")


def test_a_pipe_named_as_a_checkpoint_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / checkpoint.NAME.format(3))
    problem = rw.Problem(rw.Observations.from_coo([0, 1], [1, 0], [1.0, 2.0]), "square")
    with checkpoint.opened(rw.Checkpoint(tmp_path, resume=True)) as folder:
        assert folder.restored(problem, rw.solvers.get("eglrl")) is None


# Inputs: opening a pipe without a writer waits for ever, so every reader must look first.


def test_pipes_and_devices_are_refused_as_tables_models_and_shards(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(rw.DataError, match="is a pipe or a device"):
            read_table(path)
        with pytest.raises(rw.ModelFileError, match="pipe or a device"):
            rw.load(path)
    folder = rw.write_shards([([0, 1], [1, 0], [1.0, 2.0])], tmp_path / "shards", shape=(2, 2))
    (target,) = folder.glob("*targets.npy")
    target.unlink()
    os.mkfifo(target)
    with pytest.raises(rw.ShardFileError, match="pipe or a device"):
        list(rw.ShardFolder(folder).pieces())
