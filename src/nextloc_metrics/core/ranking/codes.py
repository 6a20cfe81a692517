"""Semantic ids: the codes of locations, and beams of codes as blocks of tied candidates."""

import math
import re
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from nextloc_metrics.core.queries.arrays import (
    Array,
    as_tensor,
    as_tensor_or_text,
    is_repeat,
    pad_rows,
)
from nextloc_metrics.core.queries.batch import Batch
from nextloc_metrics.core.queries.checks import check_positive, is_integer
from nextloc_metrics.core.queries.messages import describe, short
from nextloc_metrics.core.ranking.forms import find_in_parts, of_found
from nextloc_metrics.core.ranking.needs import Needs
from nextloc_metrics.core.ranking.target import read_target

Invalid = Literal["rank", "drop"]

# A token, or text between tokens, which is a token that no codebook has.
_TOKEN = re.compile(r"<[^<>]*>|[^<>\s]+|[<>]")


class Codes:
    """The codes of locations, such as semantic ids: a sequence of tokens for each location.

    Several locations may share a code. A beam is valid if it is the whole code of a location.

    Args:
        codebook: the code of each location: text such as `"<a_12><b_3>"`, a row of tokens such as
            `["<a_12>", "<b_3>"]`, or rows of integers of at least 0, padded with -1 at the end,
            `[C, L]`.

    Attributes:
        tokens: int64 `[C, L]`, padded with -1; tokens of text are numbered.
        numbers: int64 `[C]`, of each location, the first location that has its code.

    Example:
        >>> codes = Codes(["<a_1><b_1>", "<a_1><b_2>", "<a_1><b_1>"])
        >>> codes.numbers
        tensor([0, 1, 0])
        >>> codes.collisions(), codes.collisions(level=1)  # two share both tokens, all the first
        (0.6666666666666666, 1.0)
        >>> beams = [["<a_1><b_2>", "<a_1>"], ["<a_1><b_1>"]]
        >>> codes.validity(beams), codes.collisions(beams)  # 2 of 3, and 1 of these 2
        (0.6666666666666666, 0.5)
    """

    def __init__(self, codebook: Array) -> None:
        read = as_tensor_or_text("codebook", codebook, join_rows=True)
        self._names: dict[str, int] | None = None if isinstance(read, Tensor) else {}
        self.tokens = self._read("codebook", read, 2).cpu()
        empty = (self.tokens < 0).all(1).nonzero()[:, 0].tolist()
        if empty or not len(self.tokens):
            got = f"none in row {empty[0]}" if empty else "no code"
            raise ValueError(f"`codebook` must have at least one token in each code, got {got}.")
        self.numbers = _find(self.tokens, self.tokens)

    def __repr__(self) -> str:
        locations, tokens = self.tokens.shape
        return f"Codes({locations:,} locations, up to {tokens} tokens each)"

    def validity(self, beams: Array | None = None, level: int | None = None) -> float:
        """Return the share of beams that are valid; NaN without beams.

        Args:
            beams: as for `Ranking.from_codes`; None for all sequences of the tokens that the
                codebook has at each position, as random beams are.
            level: the number of leading tokens that are compared; None for all.
        """
        book, found = self._match(beams, level)
        if beams is None:
            return len(set(found.tolist())) / math.prod(len(set(x)) for x in book.T.tolist())
        return float((found < len(book)).double().mean())

    def collisions(self, beams: Array | None = None, level: int | None = None) -> float:
        """Return the share of valid beams whose code several locations share; NaN without any.

        `beams` and `level` are as for `validity`; None for the codes of all locations.
        """
        book, found = self._match(beams, level)
        count = _find(book, book).bincount(minlength=len(book)).to(found.device)
        return float((count[found[found < len(book)]] > 1).double().mean())

    def look_up(self, beams: Array) -> tuple[Tensor, Tensor]:
        """Return the number of each beam's code, int64 `[..., B]`, and its tokens.

        The number of an invalid code is C, that of a beam without tokens -1.
        """
        tokens = self._read("beams", beams, 3)
        tokens = pad(tokens, (0, 0, 0, int(tokens.shape[-2] == 0)), value=-1)
        return _find(self.tokens, tokens).masked_fill((tokens < 0).all(-1), -1), tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def _match(self, beams: Array | None, level: int | None) -> tuple[Tensor, Tensor]:
        """Return the codebook, and the first row of it with each beam that has tokens."""
        book = self.tokens[:, : None if level is None else check_positive("level", level)]
        tokens = self.tokens if beams is None else self._read("beams", beams, 3)
        found = _find(book, tokens[..., : book.shape[1] if level else None])
        return book, found[(tokens >= 0).any(-1)]

    def _read(self, name: str, codes: Any, ndim: int) -> Tensor:
        """Return the tokens of codes, int64 `[..., L]`."""
        if self._names is not None:
            return self._read_text(codes, 3) if ndim == 3 else self._read_text([codes], 2)[0]
        tokens = as_tensor(name, codes)
        if not is_integer(tokens) or tokens.ndim < ndim or tokens.ndim > ndim == 2:
            form = "[..., B, L], as the codebook is" if ndim == 3 else "[C, L], or text"
            raise TypeError(f"`{name}` must be integers {form}, got {describe(codes)}.")
        tokens = tokens.detach().long()
        wrong = (tokens < -1) | ((tokens >= 0) & (pad(tokens[..., :-1], (1, 0)) < 0))
        if bool(wrong.any()):
            found = short(tokens[wrong.any(-1)][0].tolist())
            raise ValueError(
                f"`{name}` must hold tokens of at least 0, and -1 only behind them, got {found}."
            )
        return tokens

    def _read_text(self, queries: Any, ndim: int) -> Tensor:
        """Return the tokens of lists of text, int64 `[N, B, L]`; a codebook gives the numbers."""
        is_flat = isinstance(queries, Tensor) or any(isinstance(one, str) for one in queries)
        rows = [] if is_flat else [list(one) for one in queries]
        most = max([1, *map(len, rows)])
        codes = [code for row in rows for code in [*row, *[""] * (most - len(row))]]
        if is_flat or not all(isinstance(code, str) for code in codes):
            raise TypeError(
                "`beams` must be a list of text for each query, as the codebook is text, got "
                f"{describe(queries)}."
            )
        split = [_TOKEN.findall(code) for code in codes]
        if ndim == 2:
            self._names = {token: i for i, token in enumerate(dict.fromkeys(chain(*split)))}
        names = self._names or {}
        flat = np.array([names.get(token, len(names)) for token in chain(*split)], np.int64)
        padded = pad_rows(flat, np.array([*map(len, split)], np.int64), -1, least=1)
        return torch.from_numpy(padded).reshape(len(rows), most, padded.shape[1])


def _find(book: Tensor, beams: Tensor) -> Tensor:
    """Return the first row of `book` `[C, L]` with each code, int64 `[...]`; C for none."""
    width, size = max(book.shape[1], beams.shape[-1]), len(book)
    both = (book.to(beams.device), beams.flatten(0, -2))
    columns = torch.cat([pad(x, (0, width - x.shape[1]), value=-1) for x in both]).unbind(1)
    number = torch.zeros_like(columns[0])  # equal codes have one number
    for column in columns:
        known, token = torch.unique(column, return_inverse=True)
        number = torch.unique(number * len(known) + token, return_inverse=True)[1]
    row = torch.arange(size, device=beams.device)
    first = torch.full_like(number, size).scatter_reduce(0, number[:size], row, "amin")
    return first[number[size:]].view(beams.shape[:-1])


def of_codes(
    batch: Batch, codes: Codes, tokens: Tensor, scores: Array | None, invalid: Invalid, needs: Needs
) -> dict[str, Any]:
    """Rank by beams, whose tokens are `[..., B, L]` and whose numbers are the batch's `preds`."""
    relevant, size = read_target(batch, len(codes)), len(codes)
    number = batch.preds.reshape(-1, batch.preds.shape[-1])
    score = -torch.arange(number.shape[1], device=number.device).float().expand_as(number)
    if scores is not None:
        score = _scores(as_tensor("scores", scores, number.device), batch, relevant.counted)
    absent = (number < 0) | ((number == size) & (invalid == "drop"))
    score = score.masked_fill(absent, -torch.inf)
    place = number.masked_fill(absent | is_repeat(number), size)
    of_location = codes.numbers.to(number.device)

    def make(rows: slice) -> Tensor:
        """Return the scores of all locations, and of the wrong candidates of beams."""
        own, at = score[rows], place[rows]
        of_code = own.new_full((len(own), size + 1), -torch.inf).scatter_(1, at, own)
        return torch.cat([of_code[:, of_location], own.masked_fill(at < size, -torch.inf)], 1)

    width = score.element_size() * (size + number.shape[1])
    found = find_in_parts(make, width, replace(relevant, grades=None), needs.to_find)
    many = torch.cat([of_location.bincount(minlength=size), of_location.new_ones(1)])
    tokens = tokens.reshape(*number.shape, tokens.shape[-1])
    return {
        **of_found(relevant, found.cut(needs.top), batch.preds.shape[:-1]),
        "ignore_index": batch.ignore_index,
        "length": many[place].masked_fill(score == -torch.inf, 0).sum(1),
        "levels": _levels(codes, tokens, relevant.ids, score),
    }


def _scores(scores: Tensor, batch: Batch, counted: Tensor) -> Tensor:
    """Return the scores of beams `[N, B]`, or raise if one of a beam with tokens rises."""
    if not scores.is_floating_point() or scores.shape != batch.preds.shape:
        raise ValueError(
            f"`scores` must be floating, one per beam, {short(batch.preds.shape)}, got "
            f"{describe(scores)}."
        )
    given = scores.detach().reshape(-1, scores.shape[-1])
    written = batch.preds.view_as(given) >= 0
    lowest = given.masked_fill(~written, torch.inf).cummin(1).values
    before = pad(lowest[:, :-1], (1, 0), value=torch.inf)
    wrong = (written & ~(given <= before) & counted[:, None]).nonzero()
    if batch.validate_args and len(wrong):
        row, beam = wrong[0].tolist()
        raise ValueError(
            "`scores` must not rise, because beams are best first, got "
            f"{float(given[row, beam]):g} for beam {beam} of query {row}."
        )
    return given


def _levels(codes: Codes, tokens: Tensor, ids: Tensor, score: Tensor) -> Tensor:
    """Return the share of the best beams with 1, 2, ... first tokens of a target, `[N, L]`."""
    best = ((score == score.amax(1, keepdim=True)) & (score > -torch.inf)).double()
    book = codes.tokens.to(ids.device)[ids.clamp(min=0)].masked_fill(ids[..., None] < 0, -1)
    shown = pad(tokens, (0, book.shape[2]), value=-1)[:, :, None, : book.shape[2]]
    equal = (shown == book[:, None]) & (shown >= 0)
    shared = equal.long().cumprod(-1).amax(2).double()
    return (shared * (best / best.sum(1, keepdim=True).clamp(min=1))[..., None]).sum(1)
