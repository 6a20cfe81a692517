"""What scores of all candidates may be; it needs no PyTorch, as the shell lists it."""

from typing import Literal

Given = Literal["logits", "log_probabilities", "probabilities"]
