"""Tables and pictures of plain numbers, which are `reading.Reading`s.

It knows no metric, and imports `arguments`. Begin with `table.of_readings` and `lines`.
"""
