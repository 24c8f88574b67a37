"""A publisher on this machine: a real HTTP server that can be slow, broken, or wrong."""

import gzip
import hashlib
import io
import threading
import time
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath

from rankwise.datasets import SOURCES

PIECE = 8192


@dataclass
class Publisher:
    """What is served, how, and what was asked for.

    Attributes
    ----------
    body : bytes
    cut : int or None
        The connection ends after so many bytes of an answer.
    length : {"known", "chunked", "none"}
        How the answer says where it ends.
    status : int
    pause : float
        Seconds after each 8 KB.
    asked : list of str
        The path of each request.
    sent : int
        Bytes of bodies that have gone out.
    """

    body: bytes = b""
    cut: int | None = None
    length: str = "known"
    status: int = 200
    pause: float = 0.0
    port: int = 0
    asked: list = field(default_factory=list)
    sent: int = 0

    def address(self, name):
        return f"http://127.0.0.1:{self.port}/data/{name}"

    def source(self, name="movielens-100k", **changed):
        """A published set whose address and checksum are those of this server and its body."""
        address, checksum = self.address(SOURCES[name].published), hashlib.sha256(self.body).hexdigest()
        return replace(SOURCES[name], address=address, sha256=checksum, n_bytes=len(self.body), **changed)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        published = self.server.published
        published.asked.append(self.path)
        if published.status != 200:
            self.send_error(published.status)
            return
        self.send_response(200)
        if published.length == "known":
            self.send_header("Content-Length", str(len(published.body)))
        if published.length == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        self.send_body(published, published.body)

    def send_body(self, published, body):
        whole = published.cut is None
        for k in range(0, len(body) if whole else min(published.cut, len(body)), PIECE):
            piece = body[k : k + PIECE] if whole else body[k : min(k + PIECE, published.cut)]
            framed = b"%x\r\n%s\r\n" % (len(piece), piece) if published.length == "chunked" else piece
            try:
                self.wfile.write(framed)
            except OSError:  # the client has gone
                break
            published.sent += len(piece)
            time.sleep(published.pause)
        if whole and published.length == "chunked":
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def log_message(self, *_):
        pass


@contextmanager
def publishing(body=b"", **how):
    """A publisher that answers until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.published = Publisher(body, port=server.server_port, **how)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.published
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def packed(name, text):
    """`text` as the publisher of that data set packs it."""
    source = SOURCES[name]
    if source.published.endswith(".gz"):
        return gzip.compress(text.encode(), mtime=0)
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{PurePosixPath(source.file).parent}/README", "terms")
        archive.writestr(source.file, text)
    return found.getvalue()
