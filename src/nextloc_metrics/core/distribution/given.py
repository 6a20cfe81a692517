"""The kinds of scores of all candidates; importing needs no PyTorch, for the command line."""

from typing import Literal

Given = Literal["logits", "log_probabilities", "probabilities"]
