"""Files that are written whole or not at all, and clear messages where they cannot be."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path


def content_hash(content: bytes, digits: int = 8) -> str:
    """The first `digits` hexadecimal digits of the SHA-256 of `content`."""
    return hashlib.sha256(content).hexdigest()[:digits]


def write_whole(content: str | bytes, target: Path) -> None:
    """Write a file: it is whole and on disk when this returns, and as it was before where this raises.

    Raises:
        OSError: naming the file.
    """
    content = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError as error:
        raise OSError(f"{target} cannot be written: {error.strerror or error}.") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)  # it is there only where it was not renamed
    with contextlib.suppress(OSError):  # not every system can sync a folder
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_writable(folder: Path, what: str) -> None:
    """Raise OSError, naming the folder, unless a file could be written into it now; the folder is made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(f"{what} cannot be written to {folder}: {error.strerror or error}.") from None
