"""Machine code is read only from where nobody else can write, only undamaged, and a fit never depends on it."""

import logging
import os
import shutil
import stat
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from rankwise.kernels import cache, jit, pattern

grp, pwd, resource = map(pytest.importorskip, ("grp", "pwd", "resource"))
pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders have owners and modes on POSIX systems only")
as_root = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.getuid() != 0, reason="only root can act as two users"
)
ANN, EVE = 54321, 54322  # users that need not exist


@contextmanager
def refused(folder):
    """A refusal that names `folder`."""
    with pytest.raises(OSError) as caught:
        yield
    assert str(folder) in str(caught.value)


@pytest.fixture
def room(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


# Folders: their files are pickles, so who can write them can run code here.


def test_every_new_folder_is_for_its_owner_alone(room, no_umask):
    assert cache.private_folder(room / "a" / "b") == room / "a" / "b"
    assert {path.stat().st_mode & 0o777 for path in (room / "a", room / "a" / "b")} == {0o700}


@pytest.mark.parametrize("mode", [0o702, 0o722, 0o777])
def test_a_folder_or_parent_that_others_can_write_to_is_refused_by_name(room, mode):
    shared = room / "shared"
    cache.private_folder(shared / "own")
    shared.chmod(mode)
    for path in (shared, shared / "own", shared / "own" / "below", shared / "new"):
        with refused(shared):
            cache.private_folder(path)
    assert [path.name for path in shared.iterdir()] == ["own"]


def test_a_sticky_folder_is_refused_itself_and_allowed_above_an_own_one(room):
    room.chmod(0o1777)
    with refused(room):
        cache.private_folder(room)
    assert cache.private_folder(room / "own") == room / "own"


def test_a_group_may_write_only_if_it_is_this_user_alone(room, monkeypatch):
    room.chmod(0o770)
    gid = room.stat().st_gid
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="ann", pw_gid=gid))
    for name, members, private in (
        ("ann", [], True),
        ("ann", ["ann"], True),
        ("ann", ["eve"], False),
        ("staff", [], False),
    ):
        group = SimpleNamespace(gr_name=name, gr_mem=members)
        monkeypatch.setattr(grp, "getgrgid", lambda gid, group=group: group)
        if private:
            assert cache.private_folder(room / "own") == room / "own"
        else:
            with refused(room):
                cache.private_folder(room / "own")


def test_a_folder_of_somebody_else_is_refused_and_one_of_root_is_not(room, monkeypatch):
    owner = room.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    if owner:
        with pytest.raises(PermissionError, match="belongs to another user"):
            cache.private_folder(room)
    else:
        assert cache.private_folder(room) == room


def test_own_links_are_followed_once_and_what_they_lead_to_is_checked(room):
    private, shared = room / "private", room / "shared"
    cache.private_folder(private)
    shared.mkdir()
    shared.chmod(0o777)
    (room / "there").symlink_to("../" + room.name + "/private")
    (room / "open").symlink_to(shared)
    (room / "nowhere").symlink_to(room / "missing")
    (room / "loop").symlink_to(room / "loop")
    assert cache.private_folder(room / "there" / "below") == private / "below"
    with refused(shared):
        cache.private_folder(room / "open" / "below")
    for name in ("nowhere", "loop"):
        with refused(room / name):
            cache.private_folder(room / name)


def test_a_file_in_the_place_of_a_folder_is_refused(room):
    (room / "file").touch()
    for path in (room / "file", room / "file" / "below"):
        with refused(room / "file"):
            cache.private_folder(path)


def test_a_system_without_owners_has_none_to_compare(room, monkeypatch):
    room.chmod(0o777)
    monkeypatch.delattr(os, "getuid")
    assert cache.private_folder(room / "a") == room / "a"


@contextmanager
def acting_as(user):
    """Drop to another user and come back."""
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(user, user, 0)
    os.setresuid(user, user, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


@as_root
def test_nothing_that_another_user_owns_is_trusted(room):
    """Ann's process tries folders that Eve owns, has linked to, or could replace."""

    def made(name, owner, mode):
        path = room / name
        path.mkdir(parents=True)
        path.chmod(mode)
        os.chown(path, owner, owner)
        return path

    room.chmod(0o755)
    for above in room.parents:
        if not above.stat().st_mode & 0o005:  # pytest's own folders are root's alone
            above.chmod(above.stat().st_mode | 0o055)
    own = made("own", ANN, 0o700)
    made("eves", EVE, 0o755)
    made("eves/anns", ANN, 0o700)
    sticky = made("sticky", 0, 0o1777)
    made("sticky/anns", ANN, 0o700)
    made("sticky/eves", EVE, 0o700)
    made("eves-sticky", EVE, 0o1777)
    made("eves-sticky/anns", ANN, 0o700)
    (sticky / "eves-link").symlink_to(own)
    (sticky / "anns-link").symlink_to(own)
    os.lchown(sticky / "eves-link", EVE, EVE)
    os.lchown(sticky / "anns-link", ANN, ANN)
    good = {
        "own": own,
        "own/new": own / "new",
        "sticky/anns": sticky / "anns",
        "sticky/anns-link": own,
        "sticky/new": sticky / "new",
    }
    bad = [
        "eves",
        "eves/anns",
        "sticky/eves",
        "sticky/eves-link",
        "sticky/eves-link/new",
        "eves-sticky",
        "eves-sticky/anns",
        "new",
    ]
    with acting_as(ANN):
        for name, path in good.items():
            assert cache.private_folder(room / name) == path
        for name in bad:
            with pytest.raises(PermissionError):
                cache.private_folder(room / name)


# Entries.


@pytest.fixture
def folder(room, monkeypatch):
    """A new folder of the cache, and no warning given yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(room))
    for function in (cache.cache_folder, cache._warn):
        function.cache_clear()
    yield cache.cache_folder()
    for function in (cache.cache_folder, cache._warn):
        function.cache_clear()


def run(wanted_hits):
    """Run a kernel that this process has not loaded, and count how often the cache held it."""
    kernel, numbers = jit.jit(pattern.blend.py_func), np.ones(3)
    kernel(numbers, 2.0, 3.0, np.ones(3))
    assert numbers.tolist() == [5.0] * 3
    assert sum(kernel.stats.cache_hits.values()) == wanted_hits


def test_a_flipped_byte_or_a_cut_is_seen_at_every_position(folder):
    path = folder / "entry"
    run(0)
    (entry,) = folder.iterdir()
    sound = entry.read_bytes()
    assert bytes(cache._unsealed(entry)) == sound[cache.SEAL :]
    flips = (sound[:k] + bytes([sound[k] ^ 1 << k % 8]) + sound[k + 1 :] for k in range(0, len(sound), 23))
    cuts = (sound[:k] for k in range(0, len(sound), 97))
    for damaged in (*flips, *cuts, sound + b"\0"):
        path.write_bytes(damaged)
        assert cache._unsealed(path) is None


@pytest.mark.parametrize("damage", ["start", "middle", "end", "cut", "empty", "foreign"])
def test_a_damaged_entry_is_compiled_again_and_replaced(folder, damage, caplog):
    run(0)
    (entry,) = folder.iterdir()
    sound = bytearray(entry.read_bytes())
    if damage in ("start", "middle", "end"):
        sound[{"start": 0, "middle": len(sound) // 2, "end": -1}[damage]] ^= 64
    entry.write_bytes({"cut": sound[:-1], "empty": b"", "foreign": b"not an entry"}.get(damage, sound))
    with caplog.at_level(logging.WARNING):
        run(0)
    assert (str(folder) in caplog.text and "damaged" in caplog.text) == (damage != "empty")
    run(1)
    assert list(folder.iterdir()) == [entry]


def test_an_entry_under_the_name_of_another_signature_is_not_used(folder):
    run(0)
    (entry,) = folder.iterdir()
    kernel = jit.jit(pattern.blend.py_func)
    single = np.ones(3, np.float32)
    kernel(single, 2.0, 3.0, np.ones(3, np.float32))
    (other,) = set(folder.iterdir()) - {entry}
    shutil.copy(other, entry)
    run(0)


def test_what_stands_in_the_way_of_an_entry_costs_the_cache_only(folder, caplog):
    run(0)
    (entry,) = folder.iterdir()
    entry.unlink()
    for make in (entry.mkdir, partial(os.mkfifo, entry)):
        cache._warn.cache_clear()
        make()
        with caplog.at_level(logging.WARNING):
            run(0)
        assert str(entry) in caplog.text
        entry.rmdir() if entry.is_dir() else entry.unlink()
        caplog.clear()


def test_a_kernel_from_outside_the_package_is_not_cached(folder):
    def twice(x):
        return 2 * x

    assert jit.jit(twice)(3) == 6
    assert list(folder.iterdir()) == []


# Processes.

RUN_A_KERNEL = """
import numba
before = numba.config.CACHE_DIR
import numpy as np
from rankwise.kernels import cache, pattern
a = np.ones(3)
pattern.blend(a, 2.0, 3.0, np.ones(3))
assert a.tolist() == [5.0] * 3
assert numba.config.CACHE_DIR == before, numba.config.CACHE_DIR
stats = pattern.blend.stats
print(cache.cache_folder(), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def run_a_kernel(preexec_fn=None, **env):
    """Folder, hits and misses of one kernel in a process with only these settings, and what it warns of."""
    kept = {key: found for key, found in os.environ.items() if key not in ("XDG_CACHE_HOME", "HOME", "NUMBA_CACHE_DIR")}
    command = [sys.executable, "-W", "error", "-c", RUN_A_KERNEL]
    done = subprocess.run(command, env=kept | env, capture_output=True, text=True, timeout=120, preexec_fn=preexec_fn)
    assert done.returncode == 0, done.stderr
    folder, hits, misses = done.stdout.split()
    return (Path(folder), int(hits), int(misses)), done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="XDG_CACHE_HOME is the custom of Linux")
def test_a_second_process_loads_the_compiled_kernel_from_the_private_folder(room):
    (folder, hits, misses), _ = run_a_kernel(XDG_CACHE_HOME=str(room))
    assert (hits, misses) == (0, 1)
    assert run_a_kernel(XDG_CACHE_HOME=str(room)) == ((folder, 1, 0), "")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="XDG_CACHE_HOME is the custom of Linux")
def test_kernels_run_where_no_cache_can_be_kept_and_the_reason_is_given(room):
    (room / "file").touch()
    nowhere = str(room / "file" / "below")
    found, warning = run_a_kernel(XDG_CACHE_HOME=nowhere, HOME=nowhere)
    assert found == (Path("None"), 0, 1) and str(room / "file") in warning


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="XDG_CACHE_HOME is the custom of Linux")
@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "NUMBA_CACHE_DIR"])
def test_a_cache_that_others_could_write_to_is_not_used_and_is_named(room, variable, monkeypatch, caplog):
    room.chmod(0o777)
    monkeypatch.setenv(variable, str(room))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(room) if variable == "NUMBA_CACHE_DIR" else "")
    cache._warn.cache_clear()
    assert cache.cache_folder.__wrapped__() is None
    assert f"other users can write to {room}" in caplog.text
    assert list(room.iterdir()) == []


def test_a_disk_that_takes_no_entry_ends_nothing(room):
    """A limit on the size of files stands for a full disk."""
    few = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1000, 1000))
    (folder, *_), warning = run_a_kernel(few, NUMBA_CACHE_DIR=str(room))
    assert room in folder.parents and "File too large" in warning and warning.count(str(folder)) == 2
    assert list(folder.iterdir()) == []


def test_a_cache_chosen_by_the_user_for_all_of_numba_is_respected(room):
    chosen, other = room / "chosen", room / "other"
    (folder, *_), _ = run_a_kernel(NUMBA_CACHE_DIR=str(chosen), XDG_CACHE_HOME=str(other))
    assert chosen in folder.parents
    assert list(folder.iterdir())
    assert not other.exists()


def test_no_home_folder_means_no_cache(monkeypatch, caplog):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    cache._warn.cache_clear()
    assert cache.cache_folder.__wrapped__() is None
    assert "home" in caplog.text


def test_a_change_in_any_kernel_or_loss_gets_a_new_cache(tmp_path, monkeypatch):
    package = Path(cache.__file__).parents[1]
    for folder in ("kernels", "losses", "penalties"):
        shutil.copytree(package / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "kernels" / "cache.py"))
    sources, digests = sorted(tmp_path.rglob("*.py")), {cache.sources_digest()}
    for source in sources:
        with source.open("a") as file:
            file.write("# changed\n")
        digests.add(cache.sources_digest())
    assert len(digests) == 1 + len(sources)
