"""What can go wrong, as a small tree of exceptions."""


class RankwiseError(Exception):
    """Base of every error raised on purpose by rankwise."""


class DataError(RankwiseError, ValueError):
    """The observed entries cannot be used as they are."""


class DataTypeError(DataError, TypeError):
    """Something that is no number stands where a number belongs."""


class LossError(RankwiseError, ValueError):
    """A loss is not what it declares, or lacks what a solver needs."""


class SettingError(RankwiseError, ValueError):
    """A parameter has a value that cannot be used, or two of them disagree."""


class ModelFileError(RankwiseError, ValueError):
    """A model file is damaged, foreign, or of a later format."""


class NotFittedError(RankwiseError, ValueError, AttributeError):
    """A fitted model was needed and `fit` has not run."""


class MissingExtraError(RankwiseError, ImportError):
    """An optional dependency is not installed."""


class ClusterError(RankwiseError, RuntimeError):
    """A Dask cluster does not do what it is asked for: no worker is left, or no scheduler."""
