"""Adapters for other tools, one module per tool: Lightning, Hugging Face, LibCity.

What a tool calls comes in, metrics go out. It imports `metrics` and `distributed`; only
users import it. Begin with the tool that you use.
"""
