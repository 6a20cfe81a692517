"""Metrics that need more than a mean of scores: decisions, deciles, groups, single queries."""
