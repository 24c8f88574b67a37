"""Files of arrays on systems without what POSIX has; tests/solvers/test_checkpoint_files.py has their other laws."""

import os

import numpy as np
import pytest

from rankwise.storage.archive import read_arrays, write_arrays


def test_a_file_is_written_where_folders_cannot_be_opened(tmp_path, monkeypatch):
    """Windows opens no folder, so that its names cannot be flushed to the disk."""
    opens = os.open

    def no_folders(path, *args, **options):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return opens(path, *args, **options)

    monkeypatch.setattr(os, "open", no_folders)
    write_arrays(tmp_path / "file", {"a": np.arange(3.0)})
    with (tmp_path / "file").open("rb") as file:
        assert read_arrays(file)["a"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("size", [0, 1, 50, 71, 72, 500])
def test_a_file_without_its_digest_is_refused(tmp_path, size):
    write_arrays(tmp_path / "file", {"a": np.arange(30.0)})
    content = (tmp_path / "file").read_bytes()
    (tmp_path / "file").write_bytes(content[:-size] if size else content + b"x")
    with (tmp_path / "file").open("rb") as file, pytest.raises(ValueError, match="digest"):
        read_arrays(file)
