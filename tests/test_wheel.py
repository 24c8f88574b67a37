"""What users install: built from the source archive alone, with all of its files; the demo runs with it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest
from helpers import ROOT

pytestmark = pytest.mark.slow
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src")
OURS = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}


def run(*command, env=None, **options):
    environment = {name: value for name, value in os.environ.items() if name not in OURS} | (env or {})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, made from the source archive, and the archive."""
    folder = tmp_path_factory.mktemp("build")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        options = {"ignore": shutil.ignore_patterns("__pycache__", "*.egg-info")} if copy is shutil.copytree else {}
        copy(ROOT / name, folder / name, **options)
    run(sys.executable, "-m", "build", "--no-isolation", cwd=folder)
    (wheel,), (archive,) = (list((folder / "dist").glob(f"*.{kind}")) for kind in ("whl", "tar.gz"))
    return wheel, archive


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The interpreter of an environment that has nothing but the wheel, and can see what it depends on."""
    room = tmp_path_factory.mktemp("empty")
    venv.create(room, with_pip=False)
    scheme = sysconfig.get_preferred_scheme("prefix")
    places = {"base": str(room), "platbase": str(room)}
    packages, scripts = (sysconfig.get_path(kind, scheme, places) for kind in ("purelib", "scripts"))
    python = os.path.join(scripts, "python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(built[0]))
    with open(os.path.join(packages, "dependencies.pth"), "w", encoding="utf-8") as file:
        file.write(sysconfig.get_path("purelib") + "\n")  # comes after the wheel; its own .pth files are not followed
    return python, scripts


def package_files():
    root = ROOT / "src"
    found = (path for path in (root / "rankwise").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root).as_posix() for path in found}


def test_the_wheel_holds_the_package_all_of_it_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == package_files()
    assert {
        "rankwise/py.typed",
        "rankwise/__init__.pyi",
        "rankwise/experiments/table2.toml",
        "rankwise/report/template/page.html",
    } <= names


def test_the_source_archive_holds_what_a_build_needs(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in package_files()} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"} <= names


def test_the_demo_runs_from_the_wheel_outside_of_the_sources(installed, tmp_path):
    python, scripts = installed
    where = run(python, "-c", "import rankwise; print(rankwise.__file__, rankwise.__version__)", cwd=tmp_path).split()
    assert where[0].startswith(os.path.dirname(scripts)) and where[1] == "0.1.0"
    demo = str(ROOT / "examples" / "demo.py")
    run(python, "-W", "error", demo, "made", cwd=tmp_path, env={"MPLBACKEND": "Agg"})
    made = {path.name: path.stat().st_size for path in (tmp_path / "made").rglob("*") if path.is_file()}
    assert made and all(made.values())
    assert run(os.path.join(scripts, "rankwise"), "--version", cwd=tmp_path).strip().endswith("0.1.0")
