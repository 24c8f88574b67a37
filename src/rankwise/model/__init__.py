"""The fitted model: factors, offsets, posterior; predictions, recommendations, intervals, files."""

from ..engines import Offsets
from .decoding import DECODINGS
from .effects import ModelFeatures
from .everywhere import Cells, Everywhere
from .factors import Factors, as_terms, predict
from .facts import known_facts
from .files import load, save
from .learned import Learned, LearnedSide, PriorArrays
from .low_rank import LowRankModel
from .marginals import Marginals
from .posterior import Posterior
from .ranking import Seen
from .residuals import Residuals
from .summary import summary_html
from .targets import Targets

__all__ = [
    "DECODINGS",
    "Cells",
    "Everywhere",
    "Factors",
    "Learned",
    "LearnedSide",
    "LowRankModel",
    "Marginals",
    "ModelFeatures",
    "Offsets",
    "Posterior",
    "PriorArrays",
    "Residuals",
    "Seen",
    "Targets",
    "as_terms",
    "known_facts",
    "load",
    "predict",
    "save",
    "summary_html",
]
