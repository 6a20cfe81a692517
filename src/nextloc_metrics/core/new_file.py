"""Files that are written: whole, or not at all."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, Any


@contextmanager
def new_file(path: str | Path, force: bool = True, *, text: bool = False) -> Iterator[IO[Any]]:
    """Open a file to write, which gets its name when the block has ended without an error.

    Until then it has a random name in the same folder; an error or an interruption removes it. So
    what stands at `path` is whole, also on a full disk, and where two processes write it.

    Args:
        path: the file.
        force: whether a file there is replaced. A link, a folder or a device never is.
        text: whether UTF-8 is written, with line feeds, or bytes.

    Raises:
        FileExistsError: there is a file, or something else; see `force`.
        OSError: the file cannot be written; the error names it.
    """
    path = Path(path)
    check_free(path, force)
    part = path.with_name(f".{token_hex(16)}.part")
    as_text: dict[str, Any] = {"encoding": "utf-8", "newline": ""} if text else {}
    try:
        with part.open("x" if text else "xb", **as_text) as file:
            yield file
        check_free(path, force)
        part.replace(path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(part)):
            error.filename = str(path)
        raise


def check_free(path: Path, force: bool) -> None:
    """Raise if `new_file` would refuse the path because of what is there."""
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            kind = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}.get(stat.S_IFMT(mode))
            raise FileExistsError(f"{path} must be a file or new, and is {kind or 'a device'}.")
        if not force:
            raise FileExistsError(f"{path} exists; overwrite it with `force=True`.")
