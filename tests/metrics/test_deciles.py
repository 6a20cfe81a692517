"""Every metric per popularity bin, against the oracle and the laws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics import Metric, MetricCollection

import nextloc_metrics
from metric_entries import DECILES
from nextloc_metrics import (
    DecileCoverage,
    DecileKForRecall,
    DecileNDCG,
    DecilePrecision,
    DecilePredictionShare,
    PopularityBins,
    Ranking,
    RankingCollection,
    decile_metrics,
)
from oracles import deciles
from strategies import examples, same, state, updated

Options = dict[str, Any]
Batch = tuple[Tensor, Tensor]

CASES: list[tuple[str, Options]] = [
    (case.name, {name: value for name, value in case.options.items() if name != "bins"})
    for entry in DECILES
    for case in entry.cases
]
IDS = [f"{name}-{'-'.join(map(str, options.values()))}" for name, options in CASES]
# one of each class
FEW = [i for i, (name, _) in enumerate(CASES) if [name for name, _ in CASES[:i]].count(name) == 2]
every_case = pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
every_class = pytest.mark.parametrize(
    ("name", "options"), [CASES[i] for i in FEW], ids=[IDS[i] for i in FEW]
)
every_mean = pytest.mark.parametrize(
    ("name", "options"), [CASES[i] for i in FEW if CASES[i][0] in deciles.SCORES]
)
few_examples = examples(4)


def metric_of(name: str, bins: PopularityBins, options: Options, **more: Any) -> Metric:
    """One metric of the table."""
    metric: Metric = getattr(nextloc_metrics, name)(bins, **{**options, **more})
    return metric


def check_values(computed: Mapping[str, Tensor], expected: Mapping[str, float]) -> None:
    """Check keys, their order, and values."""
    assert list(computed) == list(expected)
    for key, value in expected.items():
        assert computed[key].dtype == torch.float32
        assert computed[key].shape == ()
        rounded = float(torch.tensor(value, dtype=torch.float32))  # as far as it can be met
        assert computed[key].item() == pytest.approx(rounded, abs=1e-6, nan_ok=True), key


def tied_batch(n: int = 12, locations: int = 9, levels: int = 4) -> Batch:
    """Random scores with ties, and up to three relevant ids per query."""
    target = torch.randint(-1, locations, (n, 3))
    return torch.randint(levels, (n, locations)).float(), target


def some_bins(locations: int = 9, num_bins: int = 3) -> PopularityBins:
    """Random bins, unmapped included."""
    return PopularityBins(torch.randint(num_bins + 1, (locations,)), num_bins)


# Hypothesis --------------------------------------------------------------------------------------

LEVELS = [0.0, 1.0, 2.0]
DIRTY = [*LEVELS, *LEVELS, math.nan, math.inf, -math.inf]


@st.composite
def relevance(draw: st.DrawFn, n: int, locations: int) -> Tensor:
    """Any form of target: an id, ids padded with -1, bool, or graded."""
    form = draw(st.sampled_from(["id", "ids", "bool", "graded"]))
    if form == "id":
        return torch.tensor(draw(st.lists(st.integers(0, locations - 1), min_size=n, max_size=n)))
    if form == "ids":
        row = st.lists(st.integers(2, locations - 1) | st.just(-1), min_size=3, max_size=3)
        if locations < 3:
            row = st.just([-1, 0, -1])
        return torch.tensor(draw(st.lists(row, min_size=n, max_size=n)))
    grade = st.booleans() if form == "bool" else st.sampled_from([0.0, 0.0, 1.0, 2.5])
    row = st.lists(grade, min_size=locations, max_size=locations)
    return torch.tensor(draw(st.lists(row, min_size=n, max_size=n)))


@st.composite
def problems(
    draw: st.DrawFn, form: str, levels: Sequence[float] = DIRTY
) -> tuple[list[int], int, tuple[Tensor, Tensor, Tensor], int | None]:
    """Bins, their number, a batch with its mask, and an id to ignore."""
    locations, n = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    num_bins = draw(st.sampled_from([1, 2, 3, 10]))
    bin_of = draw(st.lists(st.integers(0, num_bins), min_size=locations, max_size=locations))
    if form == "scores":
        row = st.lists(st.sampled_from(levels), min_size=locations, max_size=locations)
        preds = torch.tensor(draw(st.lists(row, min_size=n, max_size=n)))
    else:
        width = draw(st.integers(1, 7))
        written = st.lists(st.integers(0, locations - 1), max_size=width)
        padded = written.map(lambda ids: ids + [-1] * (width - len(ids)))
        preds = torch.tensor(draw(st.lists(padded, min_size=n, max_size=n)))
    target = draw(relevance(n, locations))
    mask = torch.tensor(
        draw(st.lists(st.sampled_from([True, True, False]), min_size=n, max_size=n))
    )
    ignored = draw(st.none() | st.none() | st.integers(0, locations - 1))
    return bin_of, num_bins, (preds, target, mask), ignored


# The oracle --------------------------------------------------------------------------------------


@every_case
@few_examples
@given(data=st.data())
def test_any_batch_agrees_with_the_oracle(name: str, options: Options, data: st.DataObject) -> None:
    """Scores with ties and infinities, and lists with repeats and padding, give the definitions."""
    # the ids of NaNs on the first ranks matter to shares alone, which have a test of their own
    levels = DIRTY if name != "DecilePredictionShare" else [x for x in DIRTY if x == x]
    form = data.draw(st.sampled_from(["scores", "lists"]))
    bin_of, num_bins, batch, ignored = data.draw(problems(form, levels))
    bins = PopularityBins(bin_of, num_bins)
    metric = updated(metric_of(name, bins, options, ignore_index=ignored), *batch)
    of = deciles.queries(*batch, ignored)
    check_values(metric.compute(), deciles.values_of(name, of, bin_of, num_bins, **options))


# Conventions -------------------------------------------------------------------------------------


def test_exact_recall_thresholds() -> None:
    """A recall that is exactly `min_recall` suffices, whatever fraction that is."""
    bins = PopularityBins([1] * 10)
    lists = torch.arange(10)[None]
    for n in (3, 7, 10):
        target = torch.arange(n)[None]
        for hits in range(1, n + 1):
            metric = DecileKForRecall(bins, min_recall=hits / n, decile=1)
            assert updated(metric, lists, target).compute() == hits


# Values do not depend on ids ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "median"),
    [([0, 3, 5], 4), ([0, 1, 3, 5], 3), ([0, 1, 5, 5], math.nan), ([3, 3, 3, 3, 5, 5, 5], 4)],
)
def test_queries_without_an_answer_sort_last(target: list[int], median: float) -> None:
    """The median is a number where both of the middle queries have one."""
    metric = DecileKForRecall(PopularityBins([1] * 6), 1.0, decile=1)
    metric.update(torch.tensor([[0, 1, 2, 3]]).expand(len(target), 4), torch.tensor(target))
    assert float(metric.compute()) == pytest.approx(median, nan_ok=True)


@pytest.mark.parametrize("highest", [math.nan, math.inf])
def test_a_score_of_nan_above_a_hit_is_in_the_list(highest: float) -> None:
    """Two of the first two candidates are in the bin, whether one is NaN or infinite; one hits."""
    metric = DecilePrecision(PopularityBins([1, 1, 1, 2]), k=2, decile=1, scope="all")
    scores = torch.tensor([[highest, 3.0, 2.0, 1.0]])
    assert updated(metric, scores, torch.tensor([1])).compute() == 0.5


# Exact sums --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), [CASES[i] for i in (4, *FEW)])
@pytest.mark.parametrize("form", ["scores", "lists"])
@pytest.mark.parametrize("relevant", [1, 3])
def test_more_ranks_than_needed_change_nothing(
    relevant: int, form: str, name: str, options: Options
) -> None:
    """A Ranking with the first candidates gives the bits that counting among all scores gives."""
    bins, (preds, target) = some_bins(), tied_batch(40, levels=5)
    preds[0, 3], preds[1, :4], preds[2], preds[3:6, 5] = math.nan, -math.inf, math.nan, math.nan
    target = target if relevant > 1 else torch.arange(40)[:, None] % 9
    if form == "lists":
        preds = torch.randint(9, (40, 7))
    rank = Ranking.from_lists if form == "lists" else Ranking.from_scores
    alone = updated(metric_of(name, bins, options), preds, target)
    for top in (alone.cut, alone.cut + 1, 1000):
        other = updated(metric_of(name, bins, options), rank(preds, target, top=top))
        assert same(state(other), state(alone)), top


# Intervals ---------------------------------------------------------------------------------------


@every_mean
@few_examples
@given(data=st.data(), confidence_level=st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_intervals_agree_with_the_oracle(
    name: str, options: Options, data: st.DataObject, confidence_level: float
) -> None:
    """Per bin: the number of queries, the standard error and the interval of its scores."""
    bin_of, num_bins, batch, ignored = data.draw(problems("scores"))
    bins = PopularityBins(bin_of, num_bins)
    metric = updated(metric_of(name, bins, options, ignore_index=ignored), *batch)
    of = deciles.queries(*batch, ignored)
    numbers = [*range(1, num_bins + 1), 0]
    scores = [deciles.SCORES[name](of, bin_of, number, **options) for number in numbers]
    assert metric.num_queries.tolist() == list(map(len, scores))
    errors, limits = metric.standard_error(), metric.interval(confidence_level)
    assert list(errors) == list(limits) == list(metric.compute())
    for key, values in zip(errors, scores, strict=True):
        error, low, high = deciles.sure(values, confidence_level)
        # squares are summed in steps of 2^-32, so small errors are rounded
        assert float(errors[key]) == pytest.approx(error, abs=2e-5, nan_ok=True)
        assert [float(x) for x in limits[key]] == pytest.approx([low, high], abs=1e-6, nan_ok=True)


@every_mean
def test_interval_of_a_scalar_is_the_entry_of_the_dict(name: str, options: Options) -> None:
    """With `decile` the bounds, the error and the members of a collection have the same bits."""
    bins, batch = some_bins(), tied_batch()
    every = updated(metric_of(name, bins, options), *batch)
    deciles = [1, 2, 3, "unmapped"]
    scalars = {f"d{decile}": metric_of(name, bins, options, decile=decile) for decile in deciles}
    metrics = RankingCollection(scalars)
    metrics.update(*batch)
    found = metrics.compute_with_intervals(0.9)
    for member, key in zip(scalars, every.compute(), strict=True):
        low, high = every.interval(0.9)[key]
        assert same(found[f"{member}_low"], low)
        assert same(found[f"{member}_high"], high)
        assert same(metrics[member].standard_error(), every.standard_error()[key])
        assert torch.equal(metrics[member].num_queries, every.num_queries)


def test_a_dict_has_no_interval_in_a_collection() -> None:
    """A collection has bounds for single values only; the metric returns a dict of bounds."""
    metric = DecileNDCG(some_bins(), 2)
    metrics = RankingCollection({"ndcg": metric})
    metrics.update(*tied_batch())
    assert same(metrics.compute_with_intervals(), metrics.compute())
    assert len(metrics.table(intervals=True).rows) == 4
    assert not metric.is_mean


def test_a_median_has_no_interval() -> None:
    """The smallest k for a recall is no mean of scores."""
    with pytest.raises(TypeError, match="not a mean of per-query scores"):
        DecileKForRecall(PopularityBins([1]), 1.0, decile=1).interval()


# Options are checked, inputs are checked, and errors change nothing ------------------------------


@every_class
def test_bad_input_raises_and_changes_no_state(name: str, options: Options) -> None:
    """Ids without a bin, and wrong shapes and types, raise and do not change the state."""
    bins, (preds, target) = some_bins(), tied_batch()
    metric = updated(metric_of(name, bins, options), preds, target)
    before = state(metric)
    too_wide, lists = torch.rand(2, 10), torch.tensor([[0, 1, 2]])
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((too_wide, torch.tensor([0, 1])), r"must hold every location, got 9 .* id 9"),
        ((lists, torch.tensor([9])), r"must hold every location, got 9 .* id 9"),
        ((lists, torch.tensor([[0, 77]])), r"must hold every location, got 9 .* id 77"),
        ((preds, target[:3]), r"`target` must"),
        ((preds, target + 5), r"`target` must hold ids"),
        ((preds,), r"`target` must be given"),
        ((preds, target, torch.ones(3, dtype=torch.bool)), r"`mask` must be"),
        ((Ranking.from_scores(preds, target),), r"candidates up to rank"),
    ]
    for arguments, message in wrong:
        for way in (metric.update, metric):
            with pytest.raises(ValueError, match=message):
                way(*arguments)
            assert same(state(metric), before)


@every_class
@pytest.mark.parametrize("wrong", [9, 77, 1 << 40])
def test_an_invented_id_is_a_wrong_answer_that_keeps_its_rank(
    name: str, options: Options, wrong: int
) -> None:
    """The id is in no bin, moves the others down by one, and is counted."""
    bins, target = some_bins(), torch.tensor([1, 5])
    lists = torch.tensor([[0, wrong, 1, 2], [wrong, 5, 3, -1]])
    metric = updated(metric_of(name, bins, options), lists, target)
    padded = updated(metric_of(name, bins, options), lists.masked_fill(lists == wrong, -1), target)
    if isinstance(metric, DecilePredictionShare):
        assert metric.num_invented == int((lists[:, : metric.k] == wrong).sum())
        assert padded.num_invented == 0
        metric.state[-2] = 0
    assert same(state(metric), state(padded))


@every_class
def test_what_is_left_out_is_not_looked_at(name: str, options: Options) -> None:
    """Ids without a bin raise no error in queries that the mask or `ignore_index` excludes."""
    bins = some_bins()
    lists = torch.tensor([[0, 1, 2], [99, 500, 3], [4, 5, 6]])
    target, mask = torch.tensor([1, 99, 5]), torch.tensor([True, False, True])
    rows = torch.tensor([0, 2])
    expected = state(updated(metric_of(name, bins, options), lists[rows], target[rows]))
    masked = updated(metric_of(name, bins, options), lists, target, mask)
    assert same(state(masked), expected)
    ignoring = updated(metric_of(name, bins, options, ignore_index=99), lists, target)
    assert same(state(ignoring), expected)


# Collections -------------------------------------------------------------------------------------

COLLECTIONS = pytest.mark.parametrize("kind", [RankingCollection, MetricCollection])


def test_state_names_tell_apart_what_update_reads() -> None:
    """Options of `update` are in the state's name; options of `compute` are not."""
    bins, other = some_bins(), PopularityBins([1] * 9)

    def state_of(metric: Metric) -> str:
        (name,) = metric.metric_state
        return name

    base = state_of(DecilePrecision(bins, 2))
    assert state_of(DecilePrecision(bins, 2, decile=1)) == base
    differing = [
        DecilePrecision(bins, 3),
        DecilePrecision(bins, 2, candidates=7),
        DecilePrecision(bins, 2, scope="all"),
        DecilePrecision(bins, 2, ties="optimistic"),
        DecilePrecision(bins, 2, ignore_index=0),
        DecilePrecision(other, 2),
        DecilePrecision(PopularityBins(bins.bin_of, bins.num_bins + 1), 2),
        DecileNDCG(bins, 2),
    ]
    assert len({base, *map(state_of, differing)}) == len(differing) + 1
    recall = state_of(DecileKForRecall(bins, 0.5))
    for options in ({"statistic": "mean"}, {"exhausted": 3}, {"decile": 2}):
        assert state_of(DecileKForRecall(bins, 0.5, **options)) == recall
    assert state_of(DecileKForRecall(bins, 0.51)) != recall
    covered = state_of(DecileCoverage(bins, 2))
    assert state_of(DecileCoverage(bins, 2, denominator="mapped")) == covered
    assert state_of(DecileCoverage(bins, 2, decile="overall")) == covered


@COLLECTIONS
@every_class
def test_scalars_of_one_metric_share_state_and_update(
    kind: Any, name: str, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the second batch on, eleven scalars are one update and one tensor."""
    bins = PopularityBins(torch.arange(11), 10)
    metric_class = getattr(nextloc_metrics, name)
    calls = 0
    tally = metric_class.tally

    def counting(self: Any, ranking: Ranking) -> Tensor:
        nonlocal calls
        calls += 1
        return tally(self, ranking)

    monkeypatch.setattr(metric_class, "tally", counting)
    deciles = [*range(1, 11), "unmapped"]
    metrics = kind({f"m{d}": metric_of(name, bins, options, decile=d) for d in deciles})
    whole = metric_of(name, bins, options)
    for number in range(4):
        batch = tied_batch(locations=11)
        calls = 0
        metrics.update(*batch)
        if number:
            assert calls == 1
        whole.update(*batch)
        computed = metrics.compute()
        expected = whole.compute()
        for decile in deciles:
            label = decile if isinstance(decile, str) else f"{decile:02}"
            key = next(key for key in expected if key.endswith(f"_decile_{label}"))
            assert same(computed[f"m{decile}"], expected[key])
    assert len(metrics.compute_groups) == 1
    members = list(metrics.values(copy_state=False))
    assert len({member.state.data_ptr() for member in members}) == 1


def test_preset_has_every_scalar_in_order() -> None:
    """The preset's values are those of the dicts, in their order, with prefix and postfix."""
    bins, batch = some_bins(num_bins=10), tied_batch()
    metrics = decile_metrics(bins, k=2, min_recall=0.3, prefix="val/", candidates=7, postfix="_x")
    whole = [
        DecilePrecision(bins, 2, candidates=7),
        DecileNDCG(bins, 2, candidates=7),
        DecileKForRecall(bins, 0.3, candidates=7),
        DecilePredictionShare(bins, 2, candidates=7),
        DecileCoverage(bins, 2, candidates=7),
    ]
    expected: dict[str, Tensor] = {}
    for metric in whole:
        expected |= updated(metric, *batch).compute()
    metrics.update(*batch)
    computed = metrics.compute()
    assert list(computed) == [f"val/{key}_x" for key in expected]
    assert same(computed, {f"val/{key}_x": value for key, value in expected.items()})
    assert all(value.ndim == 0 for value in computed.values())
    assert len(metrics.compute_groups) == 5
    assert not any(set(key) & set(".@ ") for key in computed)
