"""Model files: one zip of plain arrays with a checksum, no pickle, written whole or not at all; docs/model-files.md."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import losses
from .._errors import ModelFileError
from ..engines import Offsets
from ..losses.links import LINKS
from ..observations.build import check_csr
from ..storage.archive import DAMAGE, read_arrays, write_arrays
from ..storage.seal import sealed
from .intervals import from_arrays, to_arrays
from .learned import Learned
from .low_rank import LowRankModel
from .posterior import Posterior
from .ranking import Seen
from .targets import Targets

FORMAT, VERSION = "rankwise-model", 3
SEALED = 3  # the first format with a checksum
ABOUT = ("link", "chosen", "only_by")
OFFSETS = ("rows", "cols")
POSTERIOR = ("row_means", "row_variances", "col_means", "col_variances")


def save(model: LowRankModel, path: str | os.PathLike[str], *, labels: bool = True, seen: bool = True) -> None:
    """Write `model` to a file; the file appears complete or not at all.

    The file holds the factors, offsets and their variances, how they were learned and, unless they are left out with
    ``labels=False`` and ``seen=False``, the names of the rows and columns, and which entries were seen. It holds no
    value of an entry.
    """
    target = Path(path)
    arrays: dict[str, Any] = {"path": model.path, "U": model.U, "V": model.V}
    if labels:
        for name in ("row_labels", "col_labels"):
            found = getattr(model, name)
            if found is not None:
                arrays[name] = _plain(found, name)
    about = {"format": FORMAT, "version": VERSION} | {name: getattr(model, name) for name in ABOUT}
    about |= {"loss": losses.to_plain(model.loss), "facts": model.facts, "scale": float(model.scale)}
    if seen and model.seen is not None:
        arrays |= {f"seen_{name}": part for name, part in model.seen._asdict().items()}
    if model.offsets is not None:
        about["constant"] = float(model.offsets.constant)
        arrays |= {f"offsets_{name}": getattr(model.offsets, name) for name in OFFSETS}
    if model.posterior is not None:
        about["noise_variance"] = float(model.posterior.noise_variance)
    if model.learned is not None:
        about["learned"], learned = model.learned.to_plain()
        arrays |= learned
    elif model.posterior is not None:
        arrays |= {f"posterior_{name}": getattr(model.posterior, name) for name in POSTERIOR}
    if model.targets is not None:
        arrays |= {f"targets_{name}": part for name, part in model.targets.to_arrays().items()}
    if model.calibration is not None:
        arrays |= {f"calibration_{name}": part for name, part in to_arrays(model.calibration).items()}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    if not target.parent.is_dir():
        raise ModelFileError(f"There is no folder {target.parent} to save the model in.")
    write_arrays(target, arrays)


def load(path: str | os.PathLike[str]) -> LowRankModel:
    """Read a model file. Never runs code from it.

    Examples
    --------
    >>> import tempfile
    >>> import rankwise as rw
    >>> model = rw.MatrixCompletion(rank=2).fit([[1.0, 2.0], [3.0, float("nan")]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/small.rankwise")
    ...     again = rw.load(f"{folder}/small.rankwise")
    >>> print(again.shape, again.rank)
    (2, 2) 2
    """
    try:
        with open(path, "rb") as handle:
            sound = sealed(handle)
            arrays = read_arrays(handle)
        about = json.loads(arrays.pop("about").tobytes())
        version = int(about["version"]) if about["format"] == FORMAT else None
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file at {os.fspath(path)}.") from None
    except DAMAGE as error:
        raise ModelFileError(f"{os.fspath(path)} is not a rankwise model, or it is damaged.") from error
    if version is None:
        raise ModelFileError(f"{os.fspath(path)} is not a rankwise model.")
    if version > VERSION:
        raise ModelFileError(
            f"{os.fspath(path)} has format {version}; this version of rankwise reads up to {VERSION}. Update rankwise."
        )
    if sound is False or (sound is None and version >= SEALED):
        raise ModelFileError(f"{os.fspath(path)} is damaged: its checksum does not hold.")
    return _checked(arrays, about, os.fspath(path))


def _checked(arrays: dict[str, NDArray[Any]], about: dict[str, Any], where: str) -> LowRankModel:
    try:
        parts: dict[str, Any] = arrays | {name: about[name] for name in ABOUT}
        if "constant" in about:  # from format 2 on
            found = {name: parts.pop(f"offsets_{name}") for name in OFFSETS}
            parts["offsets"] = Offsets(float(about["constant"]), **found)
        parts["scale"] = float(about.get("scale", 1.0))
        if "learned" in about:
            parts["learned"] = Learned.from_plain(about["learned"], parts)
            if "noise_variance" in about:
                parts["posterior"] = parts["learned"].posterior(float(about["noise_variance"]))
        elif "noise_variance" in about:
            found = {name: parts.pop(f"posterior_{name}") for name in POSTERIOR}
            parts["posterior"] = Posterior(**found, noise_variance=float(about["noise_variance"]))
        parts["loss"], parts["facts"] = losses.from_plain(about.get("loss")), about.get("facts", {})  # from format 3 on
        if "seen_indptr" in parts:
            parts["seen"] = Seen(*(parts.pop(f"seen_{name}") for name in Seen._fields))
        shape = parts["U"].shape[0], parts["V"].shape[0]
        for name, read in (("targets", Targets.from_arrays), ("calibration", from_arrays)):
            found = {key.removeprefix(f"{name}_"): parts.pop(key) for key in list(parts) if key.startswith(f"{name}_")}
            if found:
                parts[name] = read(found, shape)
        model = LowRankModel(**parts)
        longest = model.longest
        sound = model.path.shape == (longest, longest) and model.U.shape[1:] == model.V.shape[1:] == (longest,)
        sound = sound and (model.chosen is None or (type(model.chosen) is int and 0 <= model.chosen <= longest))
        for part in (model.path, model.U, model.V):
            sound = sound and part.dtype in (np.float32, np.float64) and bool(np.isfinite(part).all())
        sound = sound and _extras_fit(model)
        for labels, size in ((model.row_labels, model.shape[0]), (model.col_labels, model.shape[1])):
            sound = sound and (labels is None or labels.shape == (size,))
        sound = sound and model.link in LINKS and isinstance(model.only_by, str | None)
    except DAMAGE:
        sound = False
    if not sound:
        raise ModelFileError(f"{where} is damaged: its parts do not fit together.")
    return model


def _extras_fit(model: LowRankModel) -> bool:
    """Whether offsets and posterior, if any, have the model's sizes and are finite, and no variance is negative."""
    parts: list[tuple[NDArray[Any], tuple[int, ...]]] = []
    numbers, variances = [], []
    if model.offsets is not None:
        numbers.append(model.offsets.constant)
        parts += [(getattr(model.offsets, name), (size,)) for name, size in zip(OFFSETS, model.shape, strict=True)]
    if model.posterior is not None:
        numbers.append(model.posterior.noise_variance)
        variances += [model.posterior.row_variances, model.posterior.col_variances, np.array(numbers[-1])]
        width, sizes = max(model.posterior.row_means.shape[1], 1), np.repeat(model.shape, 2)
        parts += [(getattr(model.posterior, name), (n, width)) for name, n in zip(POSTERIOR, sizes, strict=True)]
    kinds = (np.float32, np.float64)
    if not 0 < model.scale < np.inf or not (model.learned is None or model.learned.is_sound(model.shape)):
        return False
    if model.seen is not None and not _none_seen(model.seen, model.shape[0]):
        check_csr(*model.seen, model.shape)
    sound = isinstance(model.facts, dict) and all(
        part.shape == shape and part.dtype in kinds and np.isfinite(part).all() for part, shape in parts
    )
    return sound and bool(np.isfinite(numbers).all()) and all(np.min(part, initial=0.0) >= 0 for part in variances)


def _none_seen(seen: Seen, n_rows: int) -> bool:
    """Whether it is the pattern of rows without any entry, as new ones may be."""
    indptr, indices = seen
    sound = indptr.dtype == np.uint64 and indices.dtype == np.uint32 and indices.shape == (0,)
    return sound and indptr.shape == (n_rows + 1,) and not indptr.any()


def _plain(labels: NDArray[Any], name: str) -> NDArray[Any]:
    """Labels as an array that needs no pickle."""
    if labels.dtype.kind != "O":
        return labels
    if all(isinstance(label, str) for label in labels):
        return labels.astype(str)
    kinds = " and ".join(sorted({type(label).__name__ for label in labels})[:3])
    raise ModelFileError(
        f"The {name} are objects ({kinds}), so they cannot be saved; "
        "make them all text or leave them out (labels=False)."
    )
