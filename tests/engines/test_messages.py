"""Messages between a client and its workers: by Dask's serialization they arrive as they were, without zeros."""

import numpy as np
import pytest
from distributed.protocol import dumps, loads, to_serialize

from rankwise.engines import Shard
from rankwise.engines.cluster.messages import Message, Padded, Zeros, as_sent, writable

ARRAYS = {
    "a number": np.array(3.0),
    "none": np.zeros((0, 4)),
    "a few": np.arange(5, dtype=np.float32),
    "many": np.arange(300_000.0).reshape(-1, 3),
    "every other": np.arange(20_000.0)[::2],
    "read-only": np.frombuffer(bytes(range(256)) * 64, np.uint8),
    "by columns": np.asfortranarray(np.arange(9000.0).reshape(90, 100)),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_what_is_sent_arrives_and_can_be_written_to(array):
    message = Message(
        [], [(Shard.gather, (array, 3)), (Shard.aim, (array, None, (1.5, Zeros((2,), "<f4"))))], [1, None]
    )
    received = loads([bytes(frame) for frame in dumps({"message": to_serialize(message)})])["message"]
    assert [operation for operation, _ in received.calls] == [Shard.gather, Shard.aim]
    for _, args in received.calls:
        assert args[0].dtype == array.dtype and np.array_equal(args[0], array)
        assert writable(args[0]).flags.writeable and writable(args[0]).flags.aligned
    assert received.calls[1][1][1:] == (None, (1.5, Zeros((2,), "<f4")))


@pytest.mark.parametrize("width", [1, 3, 5, 8])
def test_columns_of_zeros_at_the_end_are_not_sent(width):
    array = np.zeros((6, 8), np.float32)
    array[:, :width] = np.arange(1.0, 6 * width + 1).reshape(6, width)
    array[:, 0] = -0.0  # a zero with a sign is kept
    sent = as_sent(array, padded=True)
    assert (sent.block.shape == (6, width)) if isinstance(sent, Padded) else width == 8
    assert writable(sent).tobytes() == array.tobytes()
    assert as_sent(array).shape == (6, 8)
