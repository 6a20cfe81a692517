"""Adapters for other tools, one module per tool; the rest of the library does not import them."""
