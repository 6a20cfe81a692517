"""Means of scores: exact sums in fixed point (`exact`), and intervals of them (`intervals`).

Scores come in, integers that add up go out. It knows no ranks, and imports `queries`. Begin with
`exact.tally`; `KeyedSums` has sums by key.
"""
