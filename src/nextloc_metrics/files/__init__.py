"""Files of predictions: Parquet, CSV, JSON lines, NumPy and TREC.

It imports `arguments`. Begin with `predictions.read`.
"""
