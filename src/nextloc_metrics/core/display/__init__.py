"""Tables and pictures of plain numbers, which are `reading.Reading`s.

Readings come in; text, HTML, LaTeX, CSV, a page or a figure goes out. It knows no metric, and
imports `queries`. Begin with `table.of_readings` and `lines`.
"""
