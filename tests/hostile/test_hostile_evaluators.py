"""The law for `Evaluator`: what is added is counted once, in any order, or refused unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hostile_batches import CHUNK, ODD, Part, Work, works
from hostile_law import attempt, found_of, law, quiet
from hostile_plain import evaluate, same
from hypothesis import strategies as st

from nextloc_metrics import report


@pytest.fixture(autouse=True, scope="module")
def _small_chunks() -> Iterator[None]:
    """Read few numbers at once, so that small batches have several chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nextloc_metrics.core.queries.batch._CHUNK", CHUNK)
        yield


def add_all(work: Work, parts: Sequence[Part]) -> tuple[report.Evaluator, list[Part]]:
    """Add batches to an evaluator; return it and those that it took."""
    evaluator, taken = report.Evaluator(**work.options), []
    for part in parts:
        before = evaluator.to_bytes()
        found = attempt(lambda part=part: evaluator.add(part.batch))
        if isinstance(found, Exception):
            assert work.odd, f"a batch is refused: {found}"
            assert evaluator.to_bytes() == before, "a batch that was refused has changed the counts"
        else:
            assert not part.is_wrong, "a wrong target was counted"
            taken.append(part)
    return evaluator, taken


def check_values(evaluator: report.Evaluator, taken: Sequence[Part]) -> None:
    """Compare the result with the oracle's of all batches that were taken."""
    how = taken[0].kind.meaning
    assert all(part.kind.meaning == how for part in taken), "batches of two kinds were taken"
    queries = [query for part in taken for query in part.queries]
    with quiet():
        found = found_of(evaluator.result())
    expected = evaluate(queries, how)
    assert same(found, expected), f"got {found}, expected {expected}"


@pytest.mark.slow
@law(4, lambda dirty: (works(ODD if dirty else [""]), st.randoms(use_true_random=False)))
def test_batches(work: Work, random: object) -> bool:
    """Batches of any kind in any order are all counted, or one of them is refused in each."""
    evaluator, taken = add_all(work, work.parts)
    if any(part.queries for part in taken):
        check_values(evaluator, taken)
    parts = list(work.parts)
    random.shuffle(parts)  # type: ignore[attr-defined]
    other, also_taken = add_all(work, parts)
    all_taken, all_also = (len(x) == len(parts) for x in (taken, also_taken))
    assert all_taken == all_also, "whether batches are taken depends on their order"
    if all_taken:
        with quiet():
            found, again = evaluator.result(), other.result()
        assert (found.card, str(found)) == (again.card, str(again))
        assert evaluator.to_bytes() == other.to_bytes()
    return all_taken


@pytest.mark.slow
@law(4, lambda dirty: (works(ODD if dirty else [""]),))
def test_merged(work: Work) -> bool:
    """Evaluators of a batch each merge into that of all, or one is refused in both; none twice."""
    whole, taken = add_all(work, work.parts)
    merged = report.Evaluator(**work.options)
    refused = len(taken) < len(work.parts)
    for part in work.parts:
        one, took = add_all(work, [part])
        refused_here = not took
        if took:
            read = report.Evaluator.from_bytes(one.to_bytes())
            found = attempt(lambda read=read: merged.merge(read))
            refused_here = isinstance(found, Exception)
        assert not refused_here or refused, "a batch was added that cannot be merged"
    if not refused:
        assert merged.to_bytes() == whole.to_bytes()
    before = whole.to_bytes()
    found = attempt(lambda: whole.merge(whole))
    assert isinstance(found, Exception) or not any(part.queries for part in taken)
    assert whole.to_bytes() == before
    return not refused
