"""The values of metrics and collections as readings, tables and pictures show them.

It imports `display`, `means` and `queries`; begin with `results.read_results`. Metrics and
collections are asked for their values and labels, and are not imported.
"""
