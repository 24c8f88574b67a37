"""Plain TCP connection from a client to the shards in a worker: a request, a reply, arrays as they are in memory.

Dask introduces the two, and its TLS keys, if it has any, encrypt the connection. Dask's own messages pass through an
event loop and a pool of threads on either side, which takes longer than a pass over millions of entries.

A worker sends signs of life while it works on a message, so that the client can tell a long computation from a
connection whose packets are lost without an error.
"""

import hmac
import pickle
import secrets
import socket
import ssl
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

Wait = Callable[[], None]
Transfer = Callable[[memoryview], int]  # sends from a buffer, or receives into it; returns the number of bytes
INLINE_BYTES = 4096  # bytes; shorter arrays are sent inside the pickle
SECRET = 32  # bytes, of each side
POLL = 1.0  # seconds between checks whether the worker still exists, while waiting
GREETING = 5.0  # seconds for the other side to send its secret
OPEN = 60.0  # seconds for the client to connect
BEAT = 3.0  # seconds between two signs of life of a worker that is working on a message
SILENCE = 30.0  # seconds without a byte after which a connection is given up
ALIVE = struct.pack("<2Q", 0, 0)  # sign of life: the sizes of a message that has no pickle


class Door(NamedTuple):
    """Port of a worker, the secret that the client sends to it, and the secret that it sends back."""

    port: int
    knock: bytes
    welcome: bytes


class Line:
    """Client's end of a connection.

    Parameters
    ----------
    host : str
    door : Door
    context : ssl.SSLContext or None
    wait : callable
        Called each second without a byte; raises if there will be none.
    """

    def __init__(self, host: str, door: Door, context: ssl.SSLContext | None, wait: Wait) -> None:
        self.wait, self.heard = wait, time.monotonic()
        self.socket = _prepared(socket.create_connection((host, door.port), GREETING))
        try:
            if context is not None:
                self.socket = context.wrap_socket(self.socket)
            self.socket.sendall(door.knock)
            if not hmac.compare_digest(_read(self.socket.recv_into, SECRET), door.welcome):
                raise ConnectionError("Another program answers at the port of the worker.")
        except BaseException:
            self.socket.close()
            raise
        self.socket.settimeout(POLL)
        weakref.finalize(self, self.socket.close)  # in case nobody calls `close`

    def send(self, message: Any) -> None:
        """Send a message; `receive` raises if this fails."""
        self.heard = time.monotonic()
        try:
            send(partial(self._patiently, self.socket.send), message)
        except OSError:
            self.socket.close()

    def receive(self) -> Any:
        """Return the reply; raise if the worker sends neither that nor signs of life."""
        return receive(partial(self._patiently, self.socket.recv_into))

    def _patiently(self, transfer: Transfer, part: memoryview) -> int:
        """Transfer some bytes; raise if none were for `SILENCE` seconds, or if `wait` does."""
        while True:
            try:
                n = transfer(part)
            except TimeoutError:
                self.wait()
                if time.monotonic() - self.heard > SILENCE:
                    raise ConnectionError(f"The worker has been silent for {SILENCE:g} s.") from None
            else:
                self.heard = time.monotonic()
                return n

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def listen(host: str, context: ssl.SSLContext | None, worker: Any) -> Door:
    """Serve the first client with the right secret by ``worker.handle``, until it disconnects or the worker is gone."""
    server = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    door = Door(server.getsockname()[1], secrets.token_bytes(SECRET), secrets.token_bytes(SECRET))
    args = server, context, door, weakref.ref(worker)
    threading.Thread(target=_serve, args=args, name="rankwise-line", daemon=True).start()
    return door


def send(transfer: Transfer, value: Any) -> None:
    """Send sizes and a pickle together, then every large array without a copy."""
    arrays: list[memoryview] = []

    def in_pickle(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= INLINE_BYTES:
            arrays.append(raw)
        return raw.nbytes < INLINE_BYTES

    body = pickle.dumps(value, 5, buffer_callback=in_pickle)
    sizes = [len(body), len(arrays), *(array.nbytes for array in arrays)]
    for left in (memoryview(struct.pack(f"<{len(sizes)}Q", *sizes) + body), *arrays):
        while left:
            left = left[transfer(left) :]


def receive(transfer: Transfer) -> Any:
    """Return what `send` has sent, after any signs of life; large arrays can be written to."""
    while (start := bytes(_read(transfer, len(ALIVE)))) == ALIVE:
        pass
    size, n = struct.unpack("<2Q", start)
    sizes = struct.unpack(f"<{n}Q", _read(transfer, 8 * n))
    body = _read(transfer, size)
    return pickle.loads(body, buffers=[_read(transfer, each) for each in sizes])


def _read(transfer: Transfer, size: int) -> memoryview:
    content = left = np.empty(size, np.uint8).data
    while left:
        n = transfer(left)
        if n == 0:
            raise ConnectionError("The other side has closed the connection.")
        left = left[n:]
    return content


def _serve(server: socket.socket, context: ssl.SSLContext | None, door: Door, worker: "weakref.ref[Any]") -> None:
    with suppress(OSError, EOFError):  # the client is gone, or never connected
        with server:
            line = _accepted(server, context, door)
        with line:
            _reply(line, worker)


def _accepted(server: socket.socket, context: ssl.SSLContext | None, door: Door) -> socket.socket:
    """Return the connection of the client that knows the secret; close all others."""
    end = time.monotonic() + OPEN
    while (left := end - time.monotonic()) > 0:
        server.settimeout(left)
        client = _prepared(server.accept()[0])
        try:
            client.settimeout(GREETING)
            if context is not None:
                client = context.wrap_socket(client, server_side=True)
            if hmac.compare_digest(_read(client.recv_into, SECRET), door.knock):
                client.sendall(door.welcome)
                client.settimeout(None)
                return client
        except OSError:
            pass
        client.close()
    raise TimeoutError(f"No client connected within {OPEN:g} s.")


def _reply(line: socket.socket, worker: "weakref.ref[Any]") -> None:
    """Reply to messages; between them only Dask holds a reference to the worker's shards."""
    alive = worker()
    if alive is None:
        return
    weakref.finalize(alive, _shut_down, line).atexit = False
    turn, ended = threading.Lock(), threading.Event()
    with turn:
        threading.Thread(target=_beat, args=(line, turn, ended), name="rankwise-line", daemon=True).start()
        try:
            while alive is not None:
                del alive
                message = receive(line.recv_into)
                alive = worker()
                if alive is not None:
                    turn.release()
                    try:
                        reply = alive.handle(message)
                    finally:
                        turn.acquire()
                    send(line.send, reply)
                    del reply
                del message
        finally:
            ended.set()


def _beat(line: socket.socket, turn: threading.Lock, ended: threading.Event) -> None:
    """Send signs of life while nobody has the `turn` to read or write messages."""
    while not ended.wait(BEAT):
        if turn.acquire(blocking=False):
            try:
                line.sendall(ALIVE)
            except OSError:  # the thread that replies finds out too
                return
            finally:
                turn.release()


def _prepared(sock: socket.socket) -> socket.socket:
    """Send short messages at once, keep idle connections open, and notice if the other machine is gone.

    ``TCP_USER_TIMEOUT`` is not set: it would also end the connection to a client that reads another worker's reply.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":  # other systems probe an idle connection after two hours
        for option, value in ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock


def _shut_down(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
