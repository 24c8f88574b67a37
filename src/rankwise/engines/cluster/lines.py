"""A plain connection from a client to the holder of some shards: a question, an answer, arrays as they lie in memory.

Dask brings the two together and its keys encrypt what they say, if it has any. Its own messages pass through an event
loop and a pool of threads on either side, which takes longer than a pass over millions of entries.
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
SMALL = 4096  # bytes; a shorter array travels inside the pickle
SECRET = 32  # bytes, of each side
POLL = 1.0  # seconds between looks at who is still there, while something is waited for
GREETING = 5.0  # seconds for the other side to say who it is
OPEN = 60.0  # seconds for the client to come


class Door(NamedTuple):
    """Where a holder is to be found, what the client says to it, and what it says back."""

    port: int
    knock: bytes
    welcome: bytes


class Line:
    """The client's end.

    Parameters
    ----------
    host : str
    door : Door
    context : ssl.SSLContext or None
    wait : callable
        Called each second while nothing comes; raises if nothing will.
    """

    def __init__(self, host: str, door: Door, context: ssl.SSLContext | None, wait: Wait) -> None:
        self.wait = wait
        self.socket = _prepared(socket.create_connection((host, door.port), GREETING))
        try:
            if context is not None:
                self.socket = context.wrap_socket(self.socket)
            self.socket.sendall(door.knock)
            if not hmac.compare_digest(_read(self.socket, SECRET, _late), door.welcome):
                raise ConnectionError("Somebody else answers there.")
        except BaseException:
            self.socket.close()
            raise
        self.socket.settimeout(POLL)
        weakref.finalize(self, self.socket.close)  # for who forgets to hang up

    def tell(self, message: Any) -> None:
        """Ask something; what goes wrong is for `hear` to say."""
        try:
            send(self.socket, message, self.wait)
        except OSError:
            self.socket.close()

    def hear(self) -> Any:
        """The answer."""
        return receive(self.socket, self.wait)

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def listen(host: str, context: ssl.SSLContext | None, holder: Any) -> Door:
    """Answer whoever comes first with the right word, by ``holder.ask``, until it hangs up or the holder is gone."""
    server = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    door = Door(server.getsockname()[1], secrets.token_bytes(SECRET), secrets.token_bytes(SECRET))
    given = server, context, door, weakref.ref(holder)
    threading.Thread(target=_serve, args=given, name="rankwise-line", daemon=True).start()
    return door


def send(sock: socket.socket, value: Any, wait: Wait) -> None:
    """Sizes and a pickle in one go, then every large array from where it is."""
    arrays: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= SMALL:
            arrays.append(raw)
        return raw.nbytes < SMALL

    body = pickle.dumps(value, 5, buffer_callback=stays)
    sizes = [len(body), len(arrays), *(array.nbytes for array in arrays)]
    for left in (memoryview(struct.pack(f"<{len(sizes)}Q", *sizes) + body), *arrays):
        while left:
            try:
                left = left[sock.send(left) :]
            except TimeoutError:
                wait()


def receive(sock: socket.socket, wait: Wait) -> Any:
    """What `send` has sent; large arrays can be written to."""
    size, n = struct.unpack("<2Q", _read(sock, 16, wait))
    sizes = struct.unpack(f"<{n}Q", _read(sock, 8 * n, wait))
    body = _read(sock, size, wait)
    return pickle.loads(body, buffers=[_read(sock, each, wait) for each in sizes])


def _read(sock: socket.socket, size: int, wait: Wait) -> memoryview:
    found = left = np.empty(size, np.uint8).data
    while left:
        try:
            n = sock.recv_into(left)
        except TimeoutError:
            wait()
            continue
        if n == 0:
            raise ConnectionError("The other side has hung up.")
        left = left[n:]
    return found


def _serve(server: socket.socket, context: ssl.SSLContext | None, door: Door, holder: "weakref.ref[Any]") -> None:
    with suppress(OSError, EOFError):  # the client is gone, or never came
        with server:
            line = _admitted(server, context, door)
        with line:
            _answer(line, holder)


def _admitted(server: socket.socket, context: ssl.SSLContext | None, door: Door) -> socket.socket:
    """The connection of the one who knows the word; others are turned away."""
    end = time.monotonic() + OPEN
    while (left := end - time.monotonic()) > 0:
        server.settimeout(left)
        guest = _prepared(server.accept()[0])
        try:
            guest.settimeout(GREETING)
            if context is not None:
                guest = context.wrap_socket(guest, server_side=True)
            if hmac.compare_digest(_read(guest, SECRET, _late), door.knock):
                guest.sendall(door.welcome)
                guest.settimeout(None)
                return guest
        except OSError:
            pass
        guest.close()
    raise TimeoutError("Nobody came.")


def _answer(line: socket.socket, holder: "weakref.ref[Any]") -> None:
    """Answer questions; between them nothing but Dask keeps the holder."""
    known = holder()
    if known is None:
        return
    weakref.finalize(known, _hang_up, line).atexit = False
    while known is not None:
        del known
        told = receive(line, _late)
        known = holder()
        if known is not None:
            send(line, known.ask(told), _late)
        del told


def _prepared(sock: socket.socket) -> socket.socket:
    """Short messages go out at once, and a machine that is gone is noticed in the end."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _late() -> None:
    raise TimeoutError("Nothing comes.")


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
