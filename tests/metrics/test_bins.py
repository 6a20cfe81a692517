"""Which bin a location is in."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nextloc_metrics import PopularityBins
from oracles import deciles

BY = ["mass", "items"]
COUNTS = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@pytest.mark.parametrize("by", BY)
@given(counts=COUNTS, num_bins=st.integers(1, 11))
def test_bins_are_those_of_the_definition(by: str, counts: list[int], num_bins: int) -> None:
    """Every location's bin equals that of a loop over all locations."""
    bins = PopularityBins.from_counts(counts, num_bins, by)
    assert bins.bin_of.tolist() == deciles.bins_of_counts(counts, num_bins, by)
    assert bins.num_bins == num_bins
    assert len(bins) == len(counts)


def test_counts_and_bins_are_read_from_any_integers() -> None:
    """Lists, int32 and uint8 tensors give the same int64 table."""
    wanted = PopularityBins.from_counts([9, 4, 4, 0])
    for counts in (
        torch.tensor([9, 4, 4, 0], dtype=torch.int32),
        torch.tensor([9, 4, 4, 0]).byte(),
    ):
        made = PopularityBins.from_counts(counts)
        assert torch.equal(made.bin_of, wanted.bin_of)
        assert made.bin_of.dtype == torch.int64
    assert torch.equal(PopularityBins(wanted.bin_of.tolist()).bin_of, wanted.bin_of)


def test_changing_the_input_later_changes_no_bin() -> None:
    """The table is a copy of the argument."""
    own, counts = torch.tensor([1, 2, 0]), torch.tensor([5, 3, 0])
    bins, from_counts = PopularityBins(own), PopularityBins.from_counts(counts)
    shown = repr(from_counts)
    own.zero_()
    counts.zero_()
    assert bins.bin_of.tolist() == [1, 2, 0]
    assert repr(from_counts) == shown


def test_number_of_bins_is_the_highest_unless_given() -> None:
    """In a table of bins the highest bins may be empty, and of up to 10 bins any."""
    assert PopularityBins([1, 3, 0]).num_bins == 3
    assert PopularityBins([1, 10]).num_bins == 10
    assert PopularityBins(range(12)).num_bins == 11
    assert PopularityBins([1, 11], num_bins=11).num_bins == 11
    assert PopularityBins([1, 3, 0], num_bins=5).num_bins == 5
    assert PopularityBins([0, 0]).num_bins == 1


def test_bins_of_ids() -> None:
    """Ids of any shape have bins, and padding has one beyond the last."""
    bins = PopularityBins([2, 1, 0])
    assert bins.of([[0, 1], [2, -1]]).tolist() == [[2, 1], [0, 3]]


def test_representation_shows_locations_visits_and_their_range() -> None:
    """The table has a line for every bin, empty ones included."""
    lines = repr(PopularityBins.from_counts([50, 30, 10, 5, 5, 0], num_bins=4)).splitlines()
    assert lines[0] == "PopularityBins(num_bins=4, by='mass')"
    assert [line.split() for line in lines[2:]] == [
        ["unmapped", "1", "0", "0"],
        ["1", "3", "20", "5-10"],
        ["2", "1", "30", "30"],
        ["3", "0", "0"],
        ["4", "1", "50", "50"],
    ]
    own = repr(PopularityBins([1, 0], num_bins=2)).splitlines()
    assert own[0] == "PopularityBins(num_bins=2)"
    assert [line.split() for line in own[2:]] == [["unmapped", "1"], ["1", "1"], ["2", "0"]]


def test_columns_of_the_representation_stand_below_each_other() -> None:
    """Large numbers keep the table's lines equally long."""
    lines = repr(PopularityBins.from_counts([12_345_678, 1_000_000, 1])).splitlines()[1:]
    assert len({len(line) for line in lines}) == 1


def test_bins_move_copy_and_pickle_and_stay_out_of_a_state_dict() -> None:
    """The table is a buffer that is not saved."""
    bins = PopularityBins.from_counts([5, 3, 0])
    assert bins.state_dict() == {}
    assert bins.to("meta").bin_of.device.type == "meta"
    bins = PopularityBins.from_counts([5, 3, 0])
    for copied in (pickle.loads(pickle.dumps(bins)), copy.deepcopy(bins), bins.to("cpu")):
        assert repr(copied) == repr(bins)
        assert torch.equal(copied.bin_of, bins.bin_of)
    assert bins.half().bin_of.dtype == torch.int64
