"""Files with features of rows or columns: delimited text with a header, or Parquet."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from .._errors import DataError
from ..observations import FeatureTable, LabelIndex

FEATURE_SEPARATORS = (",", "\t", ";")


def read_features(path: Path, known: LabelIndex, name: object = None) -> tuple[FeatureTable, list[str]]:
    """Read a table of features and the notes on how it was read.

    Parameters
    ----------
    path : Path
        Text with a header and commas, tabs or semicolons between columns, also compressed (.gz, .bz2), or Parquet.
    known : LabelIndex
        Labels of the entries. The column `name` has them, if there is one; else the first in which half of them occur.
    name : str, optional
    """
    if not path.is_file():
        raise DataError(f"There is no file of features at {path}.")
    try:
        table = pq.read_table(path) if path.suffix == ".parquet" else _read_text(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as features, a table with a header: {error}") from None
    label = str(name) if name in table.column_names else _label(path, table, known)
    features = FeatureTable.read(table, label, known)
    if features.labels is not None:
        features = features._replace(labels=known.cast(features.labels))
    return features, [f"{path}: labels in column {label!r}, features {', '.join(features.columns)}"]


def _read_text(path: Path) -> Any:
    with pa.input_stream(str(path)) as stream:
        header = stream.read(1 << 16).split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    separator = max(FEATURE_SEPARATORS, key=header.count)
    return pacsv.read_csv(str(path), parse_options=pacsv.ParseOptions(delimiter=separator))


def _label(path: Path, table: Any, known: LabelIndex) -> str:
    """Name of the first column in which at least half of the entries' labels occur."""
    labels = set(map(str, known.names.tolist()))
    for name in table.column_names:
        if 2 * len(labels & set(map(str, table[name].to_pylist()))) >= len(labels):
            return str(name)
    raise DataError(
        f"{path}: no column has the labels of the entries; its columns are {', '.join(table.column_names)}."
    )
