"""`python -m nextloc_metrics`: the command line."""

import atexit
import errno
import io
import os
import sys
import threading
from contextlib import suppress
from typing import Any


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


def script() -> None:
    """Run a command as the script `nextloc-metrics`, and end without taking PyTorch to pieces.

    What Python does at the end is done: threads, registered functions, output. A script that
    another program runs, such as a profiler, returns to it.
    """
    try:
        main()
    except SystemExit as end:
        # neither has a public name: without them, Python ends as it does
        ends: Any = getattr(threading, "_shutdown", None), getattr(atexit, "_run_exitfuncs", None)
        if type(end.code) is int and sys._getframe(1).f_back is None and all(ends):
            for end_of_python in ends:
                end_of_python()
            with suppress(OSError):  # which Python reports
                for stream in filter(None, (sys.stdout, sys.stderr)):
                    stream.flush()
                os._exit(end.code)
        raise


if __name__ == "__main__":
    main()
