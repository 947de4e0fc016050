"""DAMe's two aggregations for any learner: BOLA at a client, SEGA at the server."""

from cotempo.learners.dual.learner import DualLearner, DualState, RoundRecord

__all__ = ["DualLearner", "DualState", "RoundRecord"]
