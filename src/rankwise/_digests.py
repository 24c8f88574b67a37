"""Digests that tell whether two things are equal."""

import hashlib
import os

import numpy as np

SIZE = 16  # bytes, so that two different things do not have the same digest by chance


def checksum(*parts: object) -> bytes:
    """Return a digest of arrays, numbers, strings, bytes and None, in this order."""
    digest = hashlib.blake2b(digest_size=SIZE)
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.hasobject:
            part = repr(part.tolist())
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
        else:
            part = part.item() if isinstance(part, np.generic) else part
            digest.update(part if isinstance(part, bytes) else repr(part).encode())
        digest.update(b"\0")
    return digest.digest()


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return a digest of the bytes of a file, 32 hexadecimal digits."""
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=SIZE)).hexdigest()
