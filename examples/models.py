"""Models for the examples: baselines that count visits, and a small GRU.

Every model is called with the inputs that `Histories.batch` returns, and returns scores of all
locations.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from check_ins import PADDING, UNKNOWN_USER, UNSEEN, CheckIns, Inputs
from nextloc_metrics import analysis


class MostFrequent(nn.Module):
    """Score a location by the visits of all users in the training part."""

    def __init__(self, data: CheckIns) -> None:
        super().__init__()
        self.counts = data.training_counts()

    def forward(self, batch: Inputs) -> Tensor:
        """Return scores ``[N, num_locations]``."""
        return analysis.most_frequent(self.counts, len(batch["user"])).clone()


class MostVisited(nn.Module):
    """Score a location by this user's visits in the training part.

    The visits of all users decide between locations that this user visited equally often.
    """

    def __init__(self, data: CheckIns) -> None:
        super().__init__()
        training = data.part == 0
        self.counts = analysis.VisitCounts(
            data.location[training], data.user[training], num_locations=data.num_locations
        )

    def forward(self, batch: Inputs) -> Tensor:
        """Return scores ``[N, num_locations]``."""
        return self.counts.scores(batch["user"])


class Markov(MostVisited):
    """Score a location by how often this user went there from the current one.

    What scores ``MostVisited`` decides between equal counts.
    """

    def forward(self, batch: Inputs) -> Tensor:
        """Return scores ``[N, num_locations]``."""
        return self.counts.scores(batch["user"], last=batch["history"][:, -1])


class ReturnOrExploreGRU(nn.Module):
    """A GRU over the recent visits that mixes a return to one of them with any location.

    The score is the logarithm of a mixture of two distributions, as in pointer-generator networks
    (See, Liu, Manning, ACL 2017) and RepeatNet (Ren et al., AAAI 2019). One is attention over the
    history, for returns. The other is a softmax over all locations. A gate gives their weights.
    """

    def __init__(self, data: CheckIns, size: int = 64) -> None:
        super().__init__()
        self.location = nn.Embedding(data.num_locations, size, padding_idx=PADDING)
        self.user = nn.Embedding(data.num_users, size)
        self.hour = nn.Embedding(24, size)
        self.weekday = nn.Embedding(7, size)
        for embedding in (self.location, self.user, self.hour, self.weekday):
            nn.init.normal_(embedding.weight, std=0.1)
        with torch.no_grad():  # these are never trained: random numbers would be noise
            self.location.weight[[PADDING, UNSEEN]] = 0
            self.user.weight[UNKNOWN_USER] = 0
        self.gru = nn.GRU(size, size, batch_first=True)
        self.explore = nn.Linear(size, data.num_locations)
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size, bias=False)  # a bias adds the same to all visits
        self.gate = nn.Linear(size, 1)

    def forward(self, batch: Inputs) -> Tensor:
        """Return scores ``[N, num_locations]`` of the next visit."""
        return self.score(batch, last=1)[:, 0]

    def score(self, batch: Inputs, last: int) -> Tensor:
        """Return scores ``[N, last, num_locations]`` after each of the last visits."""
        history = batch["history"]
        length = history.shape[1]
        real = history != PADDING
        when = self.hour(batch["hours"]) + self.weekday(batch["weekdays"])
        visits = (self.location(history) + when) * real[:, :, None]
        states, _ = self.gru(visits)
        now = (states + self.user(batch["user"])[:, None])[:, -last:]

        known = torch.ones(length, length, dtype=torch.bool, device=history.device).tril()[-last:]
        match = self.query(now) @ self.key(visits + states).mT / states.shape[-1] ** 0.5
        match = match.masked_fill(~(known & real[:, None]), -1e9)
        back = self.gate(now).sigmoid()
        chance: Tensor = (1 - back) * self.explore(now).softmax(-1)
        where = history[:, None].expand_as(match)
        return (chance.scatter_add(2, where, back * match.softmax(-1)) + 1e-9).log()
