"""The metrics, one file for each family, and the presets.

It imports `geography` and `base`. Begin with `at_k`; `grouped` and `per_query` take any mean.
"""
