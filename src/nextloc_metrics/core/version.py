"""The version, which `pyproject.toml`, `CITATION.cff` and `docs/project.md` have too."""

__version__ = "0.7.0"
