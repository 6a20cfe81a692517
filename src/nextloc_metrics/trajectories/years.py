"""The HuMob challenges whose settings are known."""

from typing import Literal, get_args

from nextloc_metrics.arguments.checks import as_number
from nextloc_metrics.arguments.messages import short

Year = Literal[2023, 2024, 2025]


def check_year(year: object) -> int:
    """Return the year, or raise if no challenge of that year is known."""
    number = as_number(year)
    if isinstance(number, bool) or number not in get_args(Year):
        raise ValueError(f"`year` must be one of {get_args(Year)}, got {short(year)}.")
    return int(number)
