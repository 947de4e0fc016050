"""Events: Cox processes and their simpler relatives, alone and together."""

from cotempo.events.sigmoid_cox import FittedCox, SigmoidCox

__all__ = ["FittedCox", "SigmoidCox"]
