"""What all metrics share: the state and its name, means, plans of an update, collections.

A batch comes in; integers that add up, and readings of them, go out. It imports `scoring`,
`distribution` and `results`. Begin with `metric.RecordMetric`, then `plan.Plan`.
"""
