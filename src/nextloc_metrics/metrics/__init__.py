"""The metrics, one file for each family, and the presets.

A record comes in, a score for each query or integers go out. It imports `geography` and `core`.
Begin with `at_k`; `per_query` takes any mean.
"""
