"""The connection between a client and a holder of shards: what is sent arrives, strangers are turned away, ends end."""

import gc
import socket
import threading
import time

import numpy as np
import pytest
from distributed.security import Security

from rankwise.engines.cluster import lines
from rankwise.engines.cluster.lines import Door, Line, listen, receive, send
from rankwise.engines.cluster.messages import Reply, Told, Zeros, own

HERE = "127.0.0.1"


class Echo:
    """Answers with the question, and counts."""

    def __init__(self):
        self.asked = 0

    def ask(self, told):
        self.asked += 1
        return told


def never():
    raise TimeoutError("Nothing comes.")


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
    message = Told("sum", [("gather", (array, 3)), ("aim", (array, None, (1.5, Zeros((2,), "<f4"))))])
    sending = threading.Thread(target=send, args=(pair[0], message, never))
    sending.start()
    found = receive(pair[1], never)
    sending.join()
    assert found.join == "sum" and [verb for verb, _ in found.verbs] == ["gather", "aim"]
    for _, args in found.verbs:
        assert args[0].dtype == array.dtype and np.array_equal(args[0], array)
        assert own(args[0]).flags.writeable and own(args[0]).flags.aligned
    assert found.verbs[1][1][1:] == (None, (1.5, Zeros((2,), "<f4")))


def test_large_arrays_are_not_copied_on_arrival(pair):
    array = np.arange(4000.0)
    send(pair[0], Reply(pieces=[(0, array)]), never)
    found = receive(pair[1], never).pieces[0][1]
    assert own(found) is found and np.array_equal(found, array)


def test_questions_are_answered_until_the_client_hangs_up():
    holder = Echo()
    line = Line(HERE, listen(HERE, None, holder), None, never)
    for question in ("one", np.arange(1e5), ("three", None)):
        line.tell(question)
        assert np.array_equal(line.hear(), question) if isinstance(question, np.ndarray) else line.hear() == question
    assert holder.asked == 3
    line.close()
    assert ended()


def test_a_line_ends_with_the_holder():
    """Dask lets an actor go; the line must not keep it, nor its shards."""
    holder = Echo()
    line = Line(HERE, listen(HERE, None, holder), None, never)
    line.tell("anything")
    line.hear()
    del holder
    gc.collect()
    assert ended()
    with pytest.raises(OSError, match=r"hung up|reset"):
        line.hear()
    line.tell("anything")  # is for `hear` to say
    line.tell("anything")
    with pytest.raises(OSError, match=r"hung up|reset|Bad file|Broken"):
        line.hear()
    line.close()


def test_strangers_are_turned_away_and_the_client_is_still_let_in(monkeypatch):
    monkeypatch.setattr(lines, "GREETING", 0.5)
    holder = Echo()
    door = listen(HERE, None, holder)
    with socket.create_connection((HERE, door.port)) as silent, socket.create_connection((HERE, door.port)) as rude:
        rude.sendall(bytes(lines.SECRET))
        assert silent.recv(1) == b"" and rude.recv(1) == b""  # no word of welcome, nothing unpickled
    monkeypatch.undo()
    line = Line(HERE, door, None, never)
    line.tell(1)
    assert line.hear() == 1 and holder.asked == 1
    line.close()
    assert ended()


def test_a_client_does_not_listen_to_a_stranger():
    holder = Echo()
    door = listen(HERE, None, holder)
    with pytest.raises(ConnectionError, match="Somebody else answers"):
        Line(HERE, door._replace(welcome=bytes(lines.SECRET)), None, never)
    assert ended()


def test_nobody_comes(monkeypatch):
    monkeypatch.setattr(lines, "OPEN", 0.1)
    holder = Echo()
    door = listen(HERE, None, holder)
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
        door, guests = Door(server.getsockname()[1], b"k" * lines.SECRET, b"w" * lines.SECRET), []

        def welcome():
            guests.append(server.accept()[0])
            guests[0].sendall(door.welcome)

        threading.Thread(target=welcome).start()
        line = Line(HERE, door, None, wait)
        with pytest.raises(Gone):
            line.tell(np.zeros(size, np.uint8))
            line.hear()
        line.close()
        guests[0].close()
    assert len(looks) == 3


def contexts(keys):
    """Of a worker that listens, and of a client."""
    return keys.get_listen_args("worker")["ssl_context"], keys.get_connection_args("client")["ssl_context"]


def test_with_keys_only_who_has_one_of_the_same_authority_is_heard():
    (theirs, mine), (_, strange) = contexts(Security.temporary()), contexts(Security.temporary())
    holder = Echo()
    door = listen(HERE, theirs, holder)
    for wrong in (None, strange):
        with pytest.raises(OSError):
            Line(HERE, door, wrong, never)
    line = Line(HERE, door, mine, never)
    assert line.socket.version() in ("TLSv1.2", "TLSv1.3")
    for size in (1, 1_000_000):
        line.tell(np.ones(size))
        assert line.hear().sum() == size
    line.close()
    assert ended() and holder.asked == 2
