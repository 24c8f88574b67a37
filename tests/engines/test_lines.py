"""The connection between a client and a worker: messages arrive, strangers are turned away, connections end."""

import gc
import socket
import threading
import time

import numpy as np
import pytest
from clusters import Swallower
from distributed.security import Security

from rankwise.engines import Shard
from rankwise.engines.cluster import lines
from rankwise.engines.cluster.lines import Door, Line, listen, receive, send
from rankwise.engines.cluster.messages import Message, Padded, Reply, Zeros, as_sent, writable

HERE = "127.0.0.1"


class Echo:
    """Replies with the message, and counts."""

    def __init__(self):
        self.handled = 0

    def handle(self, message):
        self.handled += 1
        return message


def never():
    raise TimeoutError("No message in time.")


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def line_threads():
    return [thread for thread in threading.enumerate() if thread.name == "rankwise-line"]


def ended():
    """Whether the threads of all lines end soon."""
    deadline = time.monotonic() + 30
    while line_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not line_threads()


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
def test_what_is_sent_arrives_and_can_be_written_to(pair, array):
    message = Message([(Shard.gather, (array, 3)), (Shard.aim, (array, None, (1.5, Zeros((2,), "<f4"))))])
    sending = threading.Thread(target=send, args=(pair[0].send, message))
    sending.start()
    found = receive(pair[1].recv_into)
    sending.join()
    assert [operation for operation, _ in found.calls] == [Shard.gather, Shard.aim]
    for _, args in found.calls:
        assert args[0].dtype == array.dtype and np.array_equal(args[0], array)
        assert writable(args[0]).flags.writeable and writable(args[0]).flags.aligned
    assert found.calls[1][1][1:] == (None, (1.5, Zeros((2,), "<f4")))


@pytest.mark.parametrize("width", [1, 3, 5, 8])
def test_columns_of_zeros_at_the_end_are_not_sent(width):
    array = np.zeros((6, 8), np.float32)
    array[:, :width] = np.arange(1.0, 6 * width + 1).reshape(6, width)
    array[:, 0] = -0.0  # a zero with a sign is kept
    sent = as_sent(array, padded=True)
    assert (sent.block.shape == (6, width)) if isinstance(sent, Padded) else width == 8
    assert writable(sent).tobytes() == array.tobytes()
    assert as_sent(array).shape == (6, 8)


def test_large_arrays_are_not_copied_on_arrival(pair):
    array = np.arange(4000.0)
    send(pair[0].send, Reply(pieces=[(0, array)]))
    found = receive(pair[1].recv_into).pieces[0][1]
    assert writable(found) is found and np.array_equal(found, array)


def test_questions_are_answered_until_the_client_hangs_up():
    worker = Echo()
    line = Line(HERE, listen(HERE, None, worker), None, never)
    for question in ("one", np.arange(1e5), ("three", None)):
        line.send(question)
        assert (
            np.array_equal(line.receive(), question) if isinstance(question, np.ndarray) else line.receive() == question
        )
    assert worker.handled == 3
    line.close()
    assert ended()


def test_a_line_ends_with_the_worker():
    """Dask lets an actor go; the line must not keep it, nor its shards."""
    worker = Echo()
    line = Line(HERE, listen(HERE, None, worker), None, never)
    line.send("anything")
    line.receive()
    del worker
    gc.collect()
    assert ended()
    with pytest.raises(OSError, match=r"closed the connection|reset"):
        line.receive()
    line.send("anything")  # `receive` raises
    line.send("anything")
    with pytest.raises(OSError, match=r"closed the connection|reset|Bad file|Broken"):
        line.receive()
    line.close()


def test_strangers_are_turned_away_and_the_client_is_still_let_in(monkeypatch):
    monkeypatch.setattr(lines, "GREETING", 0.5)
    worker = Echo()
    door = listen(HERE, None, worker)
    with socket.create_connection((HERE, door.port)) as silent, socket.create_connection((HERE, door.port)) as rude:
        rude.sendall(bytes(lines.SECRET))
        assert silent.recv(1) == b"" and rude.recv(1) == b""  # no word of welcome, nothing unpickled
    monkeypatch.undo()
    line = Line(HERE, door, None, never)
    line.send(1)
    assert line.receive() == 1 and worker.handled == 1
    line.close()
    assert ended()


def test_a_client_does_not_listen_to_a_stranger():
    worker = Echo()
    door = listen(HERE, None, worker)
    with pytest.raises(ConnectionError, match="Another program answers"):
        Line(HERE, door._replace(welcome=bytes(lines.SECRET)), None, never)
    assert ended()


def test_nobody_comes(monkeypatch):
    monkeypatch.setattr(lines, "OPEN", 0.1)
    worker = Echo()
    door = listen(HERE, None, worker)
    assert ended()
    with pytest.raises(OSError, match="refused"):
        Line(HERE, door, None, never)


class Gone(Exception):
    """What an impatient client raises."""


@pytest.mark.parametrize("size", [10, 30_000_000], ids=["short", "longer than all buffers"])
def test_a_client_looks_around_while_the_other_side_hangs(monkeypatch, size):
    """A process that is stopped neither reads nor writes, and nothing breaks the connection."""
    monkeypatch.setattr(lines, "POLL", 0.05)
    looks = []

    def wait():
        looks.append(1)
        if len(looks) == 3:
            raise Gone

    with socket.create_server((HERE, 0)) as server:
        door, clients = Door(server.getsockname()[1], b"k" * lines.SECRET, b"w" * lines.SECRET), []

        def welcome():
            clients.append(server.accept()[0])
            clients[0].sendall(door.welcome)

        threading.Thread(target=welcome).start()
        line = Line(HERE, door, None, wait)
        with pytest.raises(Gone):
            line.send(np.zeros(size, np.uint8))
            line.receive()
        line.close()
        clients[0].close()
    assert len(looks) == 3


@pytest.mark.parametrize(
    ("limit", "size"), [(200, 100), (5000, 100), (3_000_000, 10**6)], ids=["at once", "later", "within an array"]
)
def test_a_connection_that_loses_all_bytes_is_given_up(monkeypatch, limit, size):
    """Neither side is told: only the lack of signs of life shows it."""
    monkeypatch.setattr(lines, "POLL", 0.05)
    monkeypatch.setattr(lines, "SILENCE", 0.3)
    worker, question = Echo(), np.ones(size)
    door = listen(HERE, None, worker)
    proxy = Swallower(door.port, limit)
    line = Line(HERE, door._replace(port=proxy.port), None, lambda: None)
    started = time.monotonic()
    with pytest.raises(OSError, match=r"silent for 0\.3 s|Bad file"):
        for _ in range(100):
            line.send(question)
            assert line.receive().sum() == size
    assert time.monotonic() - started < 10 and proxy.swallowed
    line.close()
    proxy.join()
    assert ended()


def test_a_worker_that_takes_long_gives_signs_of_life_and_is_waited_for(monkeypatch):
    monkeypatch.setattr(lines, "POLL", 0.05)
    monkeypatch.setattr(lines, "SILENCE", 0.5)
    monkeypatch.setattr(lines, "BEAT", 0.05)

    class Slow(Echo):
        def handle(self, message):
            time.sleep(1.5)
            return super().handle(message)

    worker = Slow()
    line = Line(HERE, listen(HERE, None, worker), None, lambda: None)
    line.send(np.ones(1000))
    assert line.receive().sum() == 1000
    line.close()
    assert ended()


def contexts(keys):
    """Of a worker that listens, and of a client."""
    return keys.get_listen_args("worker")["ssl_context"], keys.get_connection_args("client")["ssl_context"]


def test_with_keys_only_who_has_one_of_the_same_authority_is_heard():
    (theirs, mine), (_, strange) = contexts(Security.temporary()), contexts(Security.temporary())
    worker = Echo()
    door = listen(HERE, theirs, worker)
    for wrong in (None, strange):
        with pytest.raises(OSError):
            Line(HERE, door, wrong, never)
    line = Line(HERE, door, mine, never)
    assert line.socket.version() in ("TLSv1.2", "TLSv1.3")
    for size in (1, 1_000_000):
        line.send(np.ones(size))
        assert line.receive().sum() == size
    line.close()
    assert ended() and worker.handled == 2
