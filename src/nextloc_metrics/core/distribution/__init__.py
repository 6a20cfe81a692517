"""The record of a row of probabilities: how likely is the target, and how sure is the model?

Scores come in, a few numbers for each query go out. It imports `ranking` for the reading of
targets, and `backends`. Begin with `distribution.Distribution`.
"""
