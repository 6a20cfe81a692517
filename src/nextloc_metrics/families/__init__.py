"""Metrics that are not one mean of scores: by location, decile or group, and single queries."""
