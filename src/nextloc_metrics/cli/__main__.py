"""`python -m nextloc_metrics`: the command line."""

import sys


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
    run(prog_name="nextloc-metrics")


if __name__ == "__main__":
    main()
