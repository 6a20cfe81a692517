"""Tables of predictions: Parquet, CSV, JSON, Arrow, NumPy and TREC, read typed and in parts.

`beside` reads what evaluations need besides: points, coordinates, days, visits, words.

It imports `arguments`, and pyarrow when a table is read. Begin with `tables.open_rows`.
"""
