"""`python -m nextloc_metrics`: the command line."""

from runpy import run_module

if __name__ == "__main__":
    run_module("nextloc_metrics.cli", run_name="__main__", alter_sys=True)
