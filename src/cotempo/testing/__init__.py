"""Check a method of your own against the contract that every method of cotempo passes."""

from cotempo.testing.contract import CHECKS, check_method
from cotempo.testing.engines import Bytewise, Faulty
from cotempo.testing.example import example

__all__ = ["CHECKS", "Bytewise", "Faulty", "check_method", "example"]
