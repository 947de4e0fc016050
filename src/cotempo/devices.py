"""Where networks are computed: on the CPU, or on a GPU that was asked for; never on one that was not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cotempo.errors import ParameterError

if TYPE_CHECKING:
    import torch

# The type of a hyperparameter: `device: Device = "cpu"`. Which GPU is for CUDA_VISIBLE_DEVICES to say.
Device = Literal["cpu", "cuda"]


def has_device(name: Device) -> bool:
    """Return whether this machine has a device; torch is loaded only to look for a GPU."""
    if name == "cpu":
        return True
    import torch

    return torch.cuda.is_available()


def find_device(name: Device) -> torch.device:
    """Return torch's device of this name; raise `ParameterError` if this machine does not have it."""
    import torch

    if not has_device(name):
        raise ParameterError(
            f"device must be one that this machine has, torch finds no GPU here, got {name!r}; leave device out "
            "to compute on the CPU"
        )
    return torch.device(name)
