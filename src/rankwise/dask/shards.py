"""Read a folder of shards on a cluster: every worker maps the files of its shards."""

import os
from typing import Any

from ..engines import ShardFolder, client_of
from ..storage.shard_files import ShardFiles
from .entries import ClusterEntries


def read_shards(folder: str | os.PathLike[str], *, client: Any = None) -> ClusterEntries:
    """Read the entries of a folder of shards, which every worker must be able to read.

    Parameters
    ----------
    folder : path
        Written by `rankwise.write_shards` or ``rankwise shards``.
    client : distributed.Client, optional
        By default the one that this process made last.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from dask.distributed import Client
    >>> import rankwise.dask
    >>> client = Client(n_workers=1, processes=False, dashboard_address="127.0.0.1:0")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chunk = np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([5.0, 1.0, 4.0])
    ...     where = rankwise.write_shards([chunk], f"{folder}/shards")
    ...     rankwise.dask.read_shards(f"{folder}/shards", client=client)
    ClusterEntries(2 x 2, 3 observed, 1 shards)
    >>> client.close()
    """
    client = client_of(client)
    stored = ShardFolder(os.path.abspath(folder))
    loads = client.map(ShardFiles.map, stored.shards, check=True, pure=False)
    return ClusterEntries(client, loads, stored.shape, (stored.row_labels, stored.col_labels))
