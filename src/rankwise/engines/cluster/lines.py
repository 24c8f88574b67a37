"""Plain TCP connection from a client to the shards in a worker: a request, a reply, arrays as they are in memory.

Dask introduces the two, and its TLS keys, if it has any, encrypt the connection. Dask's own messages pass through an
event loop and a pool of threads on either side, which takes longer than a pass over millions of entries.
"""

import hmac
import pickle
import secrets
import socket
import ssl
import struct
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

Wait = Callable[[], None]
INLINE_BYTES = 4096  # bytes; shorter arrays are sent inside the pickle
SECRET = 32  # bytes, of each side
POLL = 1.0  # seconds between checks whether the worker still exists, while waiting
GREETING = 5.0  # seconds for the other side to send its secret
OPEN = 60.0  # seconds for the client to connect


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
        Called each second without a message; raises if there will be none.
    """

    def __init__(self, host: str, door: Door, context: ssl.SSLContext | None, wait: Wait) -> None:
        self.wait = wait
        self.socket = _prepared(socket.create_connection((host, door.port), GREETING))
        try:
            if context is not None:
                self.socket = context.wrap_socket(self.socket)
            self.socket.sendall(door.knock)
            if not hmac.compare_digest(_read(self.socket, SECRET, _late), door.welcome):
                raise ConnectionError("Another program answers at the port of the worker.")
        except BaseException:
            self.socket.close()
            raise
        self.socket.settimeout(POLL)
        weakref.finalize(self, self.socket.close)  # in case nobody calls `close`

    def send(self, message: Any) -> None:
        """Send a message; `receive` raises if this fails."""
        try:
            send(self.socket, message, self.wait)
        except OSError:
            self.socket.close()

    def receive(self) -> Any:
        """Return the reply."""
        return receive(self.socket, self.wait)

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


def send(sock: socket.socket, value: Any, wait: Wait) -> None:
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
            try:
                left = left[sock.send(left) :]
            except TimeoutError:
                wait()


def receive(sock: socket.socket, wait: Wait) -> Any:
    """Return what `send` has sent; large arrays can be written to."""
    size, n = struct.unpack("<2Q", _read(sock, 16, wait))
    sizes = struct.unpack(f"<{n}Q", _read(sock, 8 * n, wait))
    body = _read(sock, size, wait)
    return pickle.loads(body, buffers=[_read(sock, each, wait) for each in sizes])


def _read(sock: socket.socket, size: int, wait: Wait) -> memoryview:
    content = left = np.empty(size, np.uint8).data
    while left:
        try:
            n = sock.recv_into(left)
        except TimeoutError:
            wait()
            continue
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
            if hmac.compare_digest(_read(client, SECRET, _late), door.knock):
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
    while alive is not None:
        del alive
        message = receive(line, _late)
        alive = worker()
        if alive is not None:
            send(line, alive.handle(message), _late)
        del message


def _prepared(sock: socket.socket) -> socket.socket:
    """Send short messages at once, and notice in the end if the other machine is gone."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _late() -> None:
    raise TimeoutError("No message in time.")


def _shut_down(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
