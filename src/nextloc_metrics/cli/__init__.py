"""The command line: words and files come in; a result of `report` goes out as text or as a page.

It imports `report`. Begin with `commands`: PyTorch is imported when a command runs.
"""
