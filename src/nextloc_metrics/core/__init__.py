"""What every metric is made of: inputs, counting, ranks, formulas, and exact sums.

It imports no other wing. Begin with `base.ranking_metric`, then follow `update` through
`ranking`, `scoring` and `means`.
"""
