"""The record of a row of probabilities: how likely is the target, and how sure is the model?

It imports `ranking` for the reading of targets, and `backends`. Begin with
`distribution.Distribution`, then `needs.DistributionNeeds`.
"""
