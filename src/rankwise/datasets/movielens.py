"""MovieLens ratings in the formats that GroupLens publishes."""

from ..io.text import AnyPath, Layout, first_line, read_entries
from ..observations import Observations

TABS = Layout("\t", (0, 1, 2), None, "`user<TAB>item<TAB>rating<TAB>time`")
COLONS = Layout("::", (0, 1, 2), None, "`user::item::rating::time`")


def read_movielens(path: AnyPath) -> Observations:
    r"""Ratings in stars, users by items, labelled by their numbers in the file.

    Takes the format of MovieLens 100K (``u.data``, tabs) and that of 1M and 10M (``ratings.dat``, ``::``), plain, gzip
    (a name that ends in .gz), or inside a zip archive (``ml-1m.zip/ml-1m/ratings.dat``); times are left out. Three
    seconds for ten million ratings, five if they are packed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import rankwise as rw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "ratings.dat")
    ...     _ = path.write_text("1::1193::5::978300760\n2::661::3::978302109\n")
    ...     seen = rw.datasets.read_movielens(path)
    >>> print(seen.row_labels, seen.col_labels, seen.targets)
    [1 2] [ 661 1193] [5. 3.]
    """
    layout = COLONS if "::" in first_line(path) else TABS
    users, items, stars = read_entries(path, layout)
    return Observations.from_labels(users, items, stars)
