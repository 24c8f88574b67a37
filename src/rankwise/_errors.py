"""Exceptions raised by rankwise."""


class RankwiseError(Exception):
    """Base class of all errors raised by rankwise.

    Examples
    --------
    >>> import rankwise as rw
    >>> try:
    ...     rw.MatrixCompletion(rank=0).fit([[1.0, 2.0]])
    ... except rw.RankwiseError as error:
    ...     print(error)
    `rank` must be a positive integer or 'auto', got 0.
    """


class DataError(RankwiseError, ValueError):
    """Observed entries, or a file of them, are invalid.

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
    """Observed entries have a type that is not numeric."""


class ShardFileError(DataError):
    """A file or folder of shards is damaged, of another format, or cannot be written.

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
    """A loss contradicts its declaration, or lacks a property that a solver requires.

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
    """A parameter has an invalid value, or two parameters contradict each other.

    Examples
    --------
    >>> import rankwise as rw
    >>> try:
    ...     rw.solvers.get("svd")
    ... except rw.SettingError as error:
    ...     print(str(error)[:43])
    `method` must be one of 'bayes', 'factors',
    """


class ModelFileError(RankwiseError, ValueError):
    """A model file is damaged, of another format, or of a later version.

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
    """A method that needs a fitted estimator was called before `fit`.

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
    """A Dask cluster has no workers left, or its scheduler cannot be reached.

    Examples
    --------
    >>> import rankwise as rw
    >>> issubclass(rw.ClusterError, rw.RankwiseError)
    True
    """
