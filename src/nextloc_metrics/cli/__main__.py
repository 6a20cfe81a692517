"""`python -m nextloc_metrics`: the command line."""

import atexit
import errno
import gc
import io
import os
import sys
from contextlib import suppress


def main() -> None:
    """Run a command, or say what it needs."""
    try:
        from nextloc_metrics.cli.commands import main as run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit(
            "the command line needs click; install the extra `cli` (`pip install -e '.[cli]'` in a "
            "clone)."
        )
    atexit.register(gc.freeze)  # Python ends without looking for cycles, which takes most of it
    sys.stdout = sys.stdout or _Closed()
    try:
        run(prog_name="nextloc-metrics")
    except OSError as error:
        with suppress(OSError):
            print(f"Error: the output must be written, and is not: {error}.", file=sys.stderr)
        sys.stdout = _Closed()  # Python does not try again what the old one still holds
        sys.exit(1)


class _Closed(io.TextIOBase):
    """Standard output that is closed, to which Python would seem to write."""

    def write(self, _text: str) -> int:
        """Raise the error of the system."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


if __name__ == "__main__":
    main()
