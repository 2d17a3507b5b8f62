"""Files that are either whole or absent, and their hashes."""

import errno
import hashlib
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import UserError

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def replacing(target: str | Path) -> Iterator[Path]:
    """Yield a unique temporary path beside ``target``; rename it to ``target`` on success.

    The temporary may become a file or a folder. It is removed if the block raises; what an earlier run
    left at ``target`` then stays as it was. The temporary keeps the target's suffixes. Raises UserError where the disk
    is full or may not be written to.
    """
    target = Path(target)
    temporary = target.with_name(f".{uuid.uuid4().hex[:12]}.{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        if target.is_dir():
            shutil.rmtree(target)
        temporary.replace(target)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        raise UserError(f"cannot write {target}: {error.strerror}; make room or make it writable") from error
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        elif temporary.exists():
            temporary.unlink()


def sha256(path: str | Path) -> str:
    """SHA-256 of a file, or of a folder's sorted lines ``hash  relative/path``, as hex."""
    path = Path(path)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        lines = "".join(f"{sha256(p)}  {p.relative_to(path).as_posix()}\n" for p in files)
        return hashlib.sha256(lines.encode()).hexdigest()
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
