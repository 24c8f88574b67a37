"""Effects of features on the rows and columns of a model."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array
from .._checks import check_choice
from .._errors import SettingError
from ..observations import FeatureEncoder
from ..observations.labels import Labelled
from .learned import Learned, PriorArrays

SIDES = {"rows": "rows", "columns": "cols"}


@dataclass(frozen=True)
class ModelFeatures:
    """Encoders of the features that a model was fitted with; None for a side without features."""

    rows: FeatureEncoder | None = None
    cols: FeatureEncoder | None = None

    def transposed(self) -> "ModelFeatures":
        """Rows and columns exchanged."""
        return ModelFeatures(self.cols, self.rows)

    def to_plain(self) -> dict[str, Any]:
        """Return both encoders in JSON types."""
        sides = {"rows": self.rows, "cols": self.cols}
        return {name: None if side is None else side.to_plain() for name, side in sides.items()}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "ModelFeatures":
        """Inverse of `to_plain`."""
        return cls(
            *(None if plain[name] is None else FeatureEncoder.from_plain(plain[name]) for name in SIDES.values())
        )

    def is_sound(self, learned: Learned | None) -> bool:
        """Return whether each encoder has as many features as the model has weights."""
        for name in SIDES.values():
            encoder, side = getattr(self, name), None if learned is None else getattr(learned, name)
            prior = None if side is None else side_weights(side.prior)
            if encoder is not None and (prior is None or prior.arrays["weights"].shape[0] != encoder.groups.size):
                return False
        return True


def side_weights(prior: PriorArrays | None) -> PriorArrays | None:
    """Weights of the features among the priors of a side; None if it has none."""
    part = None if prior is None else prior if prior.kind == "features" else prior.part("features")
    return part if part is not None and {"weights", "deviations", "cold"} <= part.arrays.keys() else None


class WithEffects(Labelled):
    """Base of models that may have features."""

    features: ModelFeatures | None
    learned: Learned | None

    def effects(self, axis: str = "rows") -> Any:
        """Effect of every feature on the offset and the factors of a row (or column) before its entries are seen.

        Numbers are standardized, so that their effect is that of one standard deviation. The factors are those of the
        fit, ``model.learned``, whose products are the low-rank part.

        Parameters
        ----------
        axis : {"rows", "columns"}, default="rows"

        Returns
        -------
        pandas DataFrame, or dict of ndarray if pandas is not installed
            A line for each feature: its name, the column it comes from, the learned ridge of that column (large where
            it has no effect), the effect on the offset and its posterior standard deviation, and the length of the
            effect on the factors and the standard deviation of that length.
        """
        check_choice("axis", axis, tuple(SIDES))
        encoder = None if self.features is None else getattr(self.features, SIDES[axis])
        side = None if self.learned is None else getattr(self.learned, SIDES[axis])
        prior = None if side is None else side_weights(side.prior)
        if encoder is None or side is None or prior is None:
            name = "row_features" if axis == "rows" else "col_features"
            raise SettingError(f"The {axis} of this model have no features; fit with `{name}=`.")
        import narwhals as nw

        columns = _effects(encoder, prior, side.offset)
        try:
            return nw.from_dict(columns, backend="pandas").to_native()
        except ImportError:
            return columns


def _effects(encoder: FeatureEncoder, prior: PriorArrays, offset: bool) -> dict[str, Array]:
    weights, deviations = (prior.arrays[name].astype(np.float64) for name in ("weights", "deviations"))
    rank, groups = weights.shape[1] - int(offset), encoder.groups
    lengths = np.linalg.norm(weights[:, :rank], axis=1)
    spread = np.sqrt(np.sum((weights * deviations)[:, :rank] ** 2, axis=1)) / np.where(lengths > 0, lengths, 1.0)
    zero = np.zeros(len(weights))
    return {
        "feature": np.array(encoder.names, object),
        "column": np.array([encoder.columns[group].name for group in groups], object),
        "ridge": prior.constants["ridges"][groups],
        "offset": weights[:, -1] if offset else zero,
        "offset_std": deviations[:, -1] if offset else zero,
        "factors": lengths,
        "factors_std": spread,
    }
