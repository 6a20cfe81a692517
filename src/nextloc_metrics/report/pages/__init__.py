"""HTML out of tables, readings and cards; and the pictures of collections.

In come plain numbers and metrics, out goes a section of a page or a figure. It imports `metrics`,
and `core.display`. Begin with `sections`.
"""
