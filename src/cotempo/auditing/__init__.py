"""Attacks on a run by those who only read it, and what they find: a lower bound of epsilon, and what comes back."""

from cotempo.auditing.audit import audit, audit_shields
from cotempo.auditing.differencing import Difference, difference_ledger
from cotempo.auditing.result import Audit, ShieldTable

__all__ = ["Audit", "Difference", "ShieldTable", "audit", "audit_shields", "difference_ledger"]
