"""How error messages name the values they are about."""

from torch import Tensor


def describe(value: object) -> str:
    """Name a value in an error message: dtype and shape of a tensor, else type and value."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return f"{type(value).__name__} {value!r}"
