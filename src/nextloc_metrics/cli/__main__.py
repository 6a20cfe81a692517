"""`python -m nextloc_metrics`: the command line."""

import atexit
import errno
import gc
import io
import os
import sys
from contextlib import suppress


def main() -> None:
    """Run a command, or say that click must be installed."""
    try:
        from nextloc_metrics.cli.commands import main as run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit(
            "the command line needs click; install the extra `cli` (`pip install -e '.[cli]'` in a "
            "clone)."
        )
    atexit.register(gc.freeze)  # else Python looks for cycles at its end, which takes long
    sys.stdout = sys.stdout or _Closed()
    try:
        run(prog_name="nextloc-metrics")
    except OSError as error:
        with suppress(OSError):
            print(f"Error: the output must be written, and is not: {error}.", file=sys.stderr)
        sys.stdout = _Closed()  # Python does not try again to write what is left
        sys.exit(1)


class _Closed(io.TextIOBase):
    """A closed standard output: Python itself gives none, and `print` then writes nothing."""

    def write(self, _text: str) -> int:
        """Raise the error of the system."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


if __name__ == "__main__":
    main()
