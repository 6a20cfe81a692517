"""The version, which `pyproject.toml` has too; `tools/release.py` writes both."""

__version__ = "0.5.0"
