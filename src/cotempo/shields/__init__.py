"""What stands around messages: for now, the validator in front of `absorb`."""

from cotempo.shields.validate import positive_semidefinite, symmetric, validate

__all__ = ["positive_semidefinite", "symmetric", "validate"]
