"""The record of probabilities: how likely is the target, and how sure is the model?

Scores come in, a few numbers for each query go out. This room imports `ranking`, to read targets,
and `backends`. Begin with `distribution.Distribution`.
"""
