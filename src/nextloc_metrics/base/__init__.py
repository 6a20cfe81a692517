"""What all metrics share: the state and its name, means, plans of an update, collections.

It imports `scoring`, `means` and `display`. Begin with `mean.MeanMetric`, then `plan.Plan`.
"""
