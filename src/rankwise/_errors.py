"""What can go wrong, as a small tree of exceptions."""


class RankwiseError(Exception):
    """Base of every error raised on purpose by rankwise.

    Examples
    --------
    >>> import rankwise as rw
    >>> try:
    ...     rw.MatrixCompletion(rank=0).fit([[1.0, 2.0]])
    ... except rw.RankwiseError as error:
    ...     print(error)
    `rank` must be a positive integer, got 0.
    """


class DataError(RankwiseError, ValueError):
    """The observed entries cannot be used as they are.

    Examples
    --------
    >>> import rankwise as rw
    >>> try:
    ...     rw.Observations.from_coo([0, 0], [1, 1], [3.0, 4.0])
    ... except rw.DataError as error:
    ...     print(str(error).partition(";")[0])
    The entry (row 0, column 1) is given more than once
    """


class DataTypeError(DataError, TypeError):
    """Something that is no number stands where a number belongs."""


class ShardFileError(DataError):
    """A file or folder of shards is damaged, foreign, or cannot be written.

    Examples
    --------
    >>> import rankwise as rw
    >>> try:
    ...     rw.ShardFolder("no-such-folder")
    ... except rw.ShardFileError as error:
    ...     print(str(error).partition(";")[0])
    no-such-folder is not a folder of shards
    """


class LossError(RankwiseError, ValueError):
    """A loss is not what it declares, or lacks what a solver needs.

    Examples
    --------
    >>> import rankwise as rw
    >>> try:
    ...     rw.losses.get("squared")
    ... except rw.LossError as error:
    ...     print(str(error)[:23])
    Unknown loss 'squared':
    """


class SettingError(RankwiseError, ValueError):
    """A parameter has a value that cannot be used, or two of them disagree.

    Examples
    --------
    >>> import rankwise as rw
    >>> try:
    ...     rw.solvers.get("svd")
    ... except rw.SettingError as error:
    ...     print(str(error)[:21])
    Unknown method 'svd':
    """


class ModelFileError(RankwiseError, ValueError):
    """A model file is damaged, foreign, or of a later format.

    Examples
    --------
    >>> import tempfile
    >>> import rankwise as rw
    >>> with tempfile.NamedTemporaryFile(suffix=".rankwise") as file:
    ...     try:
    ...         rw.load(file.name)
    ...     except rw.ModelFileError as error:
    ...         print(str(error).partition(".rankwise ")[2])
    is not a rankwise model, or it is damaged.
    """


class CheckpointError(RankwiseError, ValueError):
    """A checkpoint cannot be written, is damaged, or belongs to another fit.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(20, 10, rank=1, density=0.5).observations
    >>> try:
    ...     rw.solve(rw.Problem(seen, "square"), rank=2, checkpoint="/dev/null/checkpoints")
    ... except rw.CheckpointError as error:
    ...     print(str(error).partition(":")[0])
    Checkpoints cannot be written to /dev/null/checkpoints
    """


class NotFittedError(RankwiseError, ValueError, AttributeError):
    """A fitted model was needed and `fit` has not run.

    Examples
    --------
    >>> import rankwise as rw
    >>> try:
    ...     rw.MatrixCompletion().recommend(0)
    ... except rw.NotFittedError as error:
    ...     print(error)
    This MatrixCompletion is not fitted yet; call `fit` first.
    """


class MissingExtraError(RankwiseError, ImportError):
    """An optional dependency is not installed.

    Examples
    --------
    >>> import rankwise as rw
    >>> issubclass(rw.MissingExtraError, ImportError)  # its message names the extra, such as rankwise[plots]
    True
    """


class ClusterError(RankwiseError, RuntimeError):
    """A Dask cluster does not do what it is asked for: no worker is left, or no scheduler.

    Examples
    --------
    >>> import rankwise as rw
    >>> issubclass(rw.ClusterError, rw.RankwiseError)
    True
    """
