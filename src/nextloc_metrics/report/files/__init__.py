"""Tables of predictions: Parquet, CSV, JSON, Arrow, NumPy and TREC, read typed and in parts.

Paths, frames and streams come in, rows of tensors go out, or an error that names file and row.
`coordinates_and_counts` reads whole what evaluations need besides: points, days, visits, words. It
imports `core`, and pyarrow when a table is read. Begin with `tables.TableRows`.
"""
