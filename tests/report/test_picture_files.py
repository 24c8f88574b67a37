"""Files of pictures appear whole or not at all, and a missing matplotlib is named with its extra."""

import pytest

from rankwise import _extras
from rankwise._errors import MissingExtraError
from rankwise.report import TimePanel, time_curves

PANEL = TimePanel("a title", "seconds", "accuracy, %", {"eglrl": ([1.0, 2.0], [80.0, 90.0])})


@pytest.mark.parametrize("n_panels", [1, 2])
@pytest.mark.parametrize("n_methods", [1, 3, 8])
def test_pictures_of_any_number_of_lines_are_written_whole(tmp_path, n_panels, n_methods):
    curves = {f"method {k}": ([1.0, 2.0, 4.0], [0.5, 0.8, 0.9 - 0.01 * k]) for k in range(n_methods)}
    panel = TimePanel("a title", "seconds", "accuracy, %", curves)
    time_curves("a title", [[panel] * n_panels], [tmp_path / "picture.png"])
    header = (tmp_path / "picture.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG") and int.from_bytes(header[16:20], "big") == 780 * n_panels
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


def test_a_failed_picture_leaves_the_old_one(tmp_path):
    path = tmp_path / "picture.unknown"
    path.write_bytes(b"old")
    with pytest.raises(ValueError):
        time_curves("a title", [[PANEL]], [path])
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="matplotlib")

    monkeypatch.setattr(_extras.importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"rankwise\[plots\]"):
        time_curves("a title", [[PANEL]], [tmp_path / "one.png"])
