"""Check a method of your own against the contract that every method of cotempo keeps."""

from cotempo.testing import determinism, faults, privacy
from cotempo.testing.contract import CHECKS, check_method, drive, example, parametrize_with_checks
from cotempo.testing.engines import Bytewise, Faulty

__all__ = [
    "CHECKS",
    "Bytewise",
    "Faulty",
    "check_method",
    "determinism",
    "drive",
    "example",
    "faults",
    "parametrize_with_checks",
    "privacy",
]
