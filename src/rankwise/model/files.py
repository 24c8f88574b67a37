"""Model files: a zip archive of plain arrays with a JSON manifest and a digest, without pickle; docs/model-files.md."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .. import losses
from .._arrays import Array
from .._errors import ModelFileError
from .._files import is_stream
from ..engines import Offsets
from ..losses.links import LINKS
from ..observations.build import check_csr
from ..storage.archive import DAMAGE, read_arrays, write_arrays
from .effects import ModelFeatures
from .everywhere import Cells
from .intervals import from_arrays, to_arrays
from .learned import FLOATS, Learned
from .low_rank import LowRankModel
from .marginals import Marginals
from .neighbours import Encoder, Neighbours
from .posterior import Posterior
from .ranking import Seen
from .targets import Targets

Arrays = dict[str, Array]
MODEL_FORMAT, MODEL_VERSION = "rankwise-model", 4
MANIFEST_ATTRIBUTES = ("link", "chosen", "only_by", "facts")  # attributes that the manifest holds as they are
LABEL_ARRAYS = ("row_labels", "col_labels")
OFFSET_ARRAYS = ("rows", "cols")
MAX_DEPTH = 50  # of dicts and lists inside each other, which recursive functions show
POSTERIOR = ("row_means", "row_variances", "col_means", "col_variances")


def save(model: LowRankModel, path: str | os.PathLike[str], *, labels: bool = True, seen: bool = True) -> None:
    """Write `model` to a file; see `LowRankModel.save`."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ModelFileError(f"There is no folder {target.parent} to save the model in.")
    manifest: dict[str, Any] = {"format": MODEL_FORMAT, "version": MODEL_VERSION, "scale": float(model.scale)}
    manifest |= {name: getattr(model, name) for name in MANIFEST_ATTRIBUTES} | {"loss": losses.to_plain(model.loss)}
    arrays: Arrays = {"path": model.path, "U": model.U, "V": model.V}
    if labels:
        present = {name: getattr(model, name) for name in LABEL_ARRAYS}
        arrays |= {name: _as_plain(part, name) for name, part in present.items() if part is not None}
    if seen and model.seen is not None:
        parts = model.seen._asdict().items()
        arrays |= _prefixed("seen", {name: part for name, part in parts if part is not None})
    if model.offsets is not None:
        manifest["constant"] = float(model.offsets.constant)
        arrays |= _prefixed("offsets", {name: getattr(model.offsets, name) for name in OFFSET_ARRAYS})
    if model.baseline is not None:
        manifest["baseline_constant"] = float(model.baseline.constant)
        arrays |= _prefixed("baseline", {name: getattr(model.baseline, name) for name in OFFSET_ARRAYS})
    if model.marginals is not None:
        arrays |= _prefixed("marginals", model.marginals.to_arrays())
    if model.posterior is not None:
        manifest["noise_variance"] = float(model.posterior.noise_variance)
    if model.learned is not None:
        manifest["learned"], learned = model.learned.to_plain()
        arrays |= learned
    elif model.posterior is not None:
        arrays |= _prefixed("posterior", {name: getattr(model.posterior, name) for name in POSTERIOR})
    if model.targets is not None:
        arrays |= _prefixed("targets", model.targets.to_arrays())
    if model.calibration is not None:
        arrays |= _prefixed("calibration", to_arrays(model.calibration))
    if model.features is not None:
        manifest["features"] = model.features.to_plain()
    if model.cells is not None:
        arrays |= _prefixed("cells", model.cells.to_arrays())
    for name, part in (("neighbours", model.neighbours), ("encoder", model.encoder)):
        arrays |= {} if part is None else _prefixed(name, part._asdict())
    arrays["manifest"] = np.frombuffer(_as_json(manifest), np.uint8)
    write_arrays(target, arrays)


def load(path: str | os.PathLike[str]) -> LowRankModel:
    """Read a file written by `LowRankModel.save`; never runs code from it.

    Raises ModelFileError if the file is missing, damaged, of another format, or inconsistent.

    Examples
    --------
    >>> import tempfile
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> model = rw.solve(rw.Problem(seen, "square"), "eglrl", rank=2).model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/small.rankwise")
    ...     restored = rw.load(f"{folder}/small.rankwise")
    >>> print(restored.shape, restored.rank)
    (40, 30) 2
    """
    where = os.fspath(path)
    if is_stream(Path(path)):
        raise ModelFileError(f"{where} is a pipe or a device; write the model to a file first.")
    try:
        with open(path, "rb") as handle:
            arrays = read_arrays(handle)
        manifest = json.loads(arrays.pop("manifest").tobytes())
        version = int(manifest["version"]) if manifest["format"] == MODEL_FORMAT else None
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file at {where}.") from None
    except DAMAGE as error:
        raise ModelFileError(f"{where} is not a rankwise model, or it is damaged.") from error
    if version is None:
        raise ModelFileError(f"{where} is not a rankwise model.")
    if version != MODEL_VERSION:
        remedy = "Update rankwise" if version > MODEL_VERSION else "Fit the model again"
        raise ModelFileError(
            f"{where} has format {version}; this version of rankwise reads format {MODEL_VERSION}. {remedy}."
        )
    try:
        model = _assembled(manifest, arrays)
        consistent = _is_consistent(model)
    except DAMAGE:
        consistent = False
    if not consistent:
        raise ModelFileError(f"{where} is damaged: its parts do not fit together.")
    return model


def _assembled(manifest: dict[str, Any], arrays: Arrays) -> LowRankModel:
    """Model of the parts of a file; raises one of `DAMAGE` if a part is missing or left over."""
    parts: dict[str, Any] = {name: manifest[name] for name in MANIFEST_ATTRIBUTES}
    parts |= {"scale": float(manifest["scale"]), "loss": losses.from_plain(manifest["loss"])}
    if "constant" in manifest:
        parts["offsets"] = Offsets(float(manifest["constant"]), **_taken("offsets", arrays))
    if "baseline_constant" in manifest:
        parts["baseline"] = Offsets(float(manifest["baseline_constant"]), **_taken("baseline", arrays))
    if "learned" in manifest:
        parts["learned"] = Learned.from_plain(manifest["learned"], arrays)
    if "noise_variance" in manifest:
        noise, learned = float(manifest["noise_variance"]), parts.get("learned")
        parts["posterior"] = (
            Posterior(**_taken("posterior", arrays), noise_variance=noise)
            if learned is None
            else learned.posterior(noise)
        )
    if "features" in manifest:
        parts["features"] = ModelFeatures.from_plain(manifest["features"])
    if seen := _taken("seen", arrays):
        parts["seen"] = Seen(**seen)
    shape = arrays["U"].shape[0], arrays["V"].shape[0]
    if marginals := _taken("marginals", arrays):
        parts["marginals"] = Marginals.from_arrays(marginals, shape)
    if targets := _taken("targets", arrays):
        parts["targets"] = Targets.from_arrays(targets, shape)
    if calibration := _taken("calibration", arrays):
        parts["calibration"] = from_arrays(calibration, shape)
    if cells := _taken("cells", arrays):
        parts["cells"] = Cells.from_arrays(cells)
    for name, kind in (("neighbours", Neighbours), ("encoder", Encoder)):
        if own := _taken(name, arrays):
            parts[name] = kind(**own)
    if not {"path", "U", "V"} <= set(arrays) <= {"path", "U", "V", *LABEL_ARRAYS}:
        raise ValueError("missing or unexpected arrays")
    return LowRankModel(**(parts | arrays))


def _is_consistent(model: LowRankModel) -> bool:
    """Return whether all parts have the model's sizes, are finite, and no variance is negative."""
    longest, (n_rows, n_cols) = model.longest, model.shape
    floats: list[tuple[Array, tuple[int, ...]]] = [(model.path, (longest, longest))]
    floats += [(model.U, (n_rows, longest)), (model.V, (n_cols, longest))]
    numbers, variances = [model.scale], []
    for offsets in (part for part in (model.offsets, model.baseline) if part is not None):
        numbers.append(offsets.constant)
        floats += [(offsets.rows, (n_rows,)), (offsets.cols, (n_cols,))]
    if model.posterior is not None:
        width = max(model.posterior.row_means.shape[1], 1)
        numbers.append(model.posterior.noise_variance)
        variances = [model.posterior.row_variances, model.posterior.col_variances, np.array(numbers[-1])]
        sizes = np.repeat(model.shape, 2).tolist()
        floats += [(getattr(model.posterior, name), (n, width)) for name, n in zip(POSTERIOR, sizes, strict=True)]
    if model.seen is not None and not _is_empty(model.seen, n_rows):
        check_csr(model.seen.indptr, model.seen.indices, model.shape)
        if model.seen.counts is not None:
            floats.append((model.seen.counts, model.seen.indices.shape))
    labels = (model.row_labels, n_rows), (model.col_labels, n_cols)
    return (
        all(part.shape == size and part.dtype in FLOATS and bool(np.isfinite(part).all()) for part, size in floats)
        and bool(np.isfinite(numbers).all())
        and all(np.min(part, initial=0.0) >= 0 for part in variances)
        and model.scale > 0
        and all(part is None or part.shape == (size,) for part, size in labels)
        and (model.learned is None or model.learned.is_sound(model.shape))
        and (model.features is None or model.features.is_sound(model.learned))
        and (model.cells is None or model.cells.is_sound(model.shape))
        and (model.neighbours is None or model.neighbours.is_sound(n_cols))
        and (model.encoder is None or model.encoder.is_sound(n_cols, longest))
        and (model.chosen is None or (type(model.chosen) is int and 0 <= model.chosen <= longest))
        and model.link in LINKS
        and isinstance(model.only_by, str | None)
        and isinstance(model.facts, dict)
        and _is_shallow(model.facts, MAX_DEPTH)
    )


def _is_empty(seen: Seen, n_rows: int) -> bool:
    """Return whether it is the pattern of `n_rows` rows without any entry, as new ones may be."""
    indptr, indices, _ = seen
    plain = indptr.dtype == np.uint64 and indices.dtype == np.uint32 and indices.shape == (0,)
    return plain and indptr.shape == (n_rows + 1,) and not indptr.any()


def _as_json(manifest: dict[str, Any]) -> bytes:
    """Manifest as JSON; raises if `load` would refuse the facts."""
    try:
        text = json.dumps(manifest)
        sound = _is_shallow(manifest["facts"], MAX_DEPTH)
    except (TypeError, ValueError, RecursionError):
        sound = False
    if not sound:
        raise ModelFileError(f"`facts` must be a dict of JSON values, at most {MAX_DEPTH} levels deep.")
    return text.encode()


def _is_shallow(part: Any, levels: int) -> bool:
    """Return whether dicts and lists contain each other at most `levels` deep."""
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple) else ()
    return levels > 0 and all(_is_shallow(each, levels - 1) for each in inner)


def _prefixed(prefix: str, arrays: dict[str, Any]) -> Arrays:
    return {f"{prefix}_{name}": array for name, array in arrays.items()}


def _taken(prefix: str, arrays: Arrays) -> Arrays:
    """Remove the arrays whose names start with the prefix and return them by the rest of their names."""
    names = [name for name in arrays if name.startswith(f"{prefix}_")]
    return {name.removeprefix(f"{prefix}_"): arrays.pop(name) for name in names}


def _as_plain(labels: Array, name: str) -> Array:
    """Labels as an array that can be stored without pickle."""
    if labels.dtype.kind != "O":
        return labels
    if all(isinstance(label, str) for label in labels):
        return labels.astype(str)
    kinds = " and ".join(sorted({type(label).__name__ for label in labels})[:3])
    raise ModelFileError(
        f"The {name} are objects ({kinds}), so they cannot be saved; "
        "make them all text or leave them out (labels=False)."
    )
