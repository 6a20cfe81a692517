"""Adapters for other tools, one module per tool; no other module imports them."""
