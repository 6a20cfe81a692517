"""Means of scores: exact sums in fixed point (`exact`), and intervals of them (`intervals`).

It knows no ranks, and imports `arguments`. Begin with `exact.tally`; `keyed` has sums by key.
"""
