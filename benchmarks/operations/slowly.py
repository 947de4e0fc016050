"""Imported by a site: its answers take as many seconds as COTEMPO_PACE says for its name, beside what they take."""

from __future__ import annotations

import json
import os
import time

from cotempo.federation.exchange import Question, Reply
from cotempo.federation.site import Site

PACE = json.loads(os.environ.get("COTEMPO_PACE", "{}"))
_answer = Site.answer


def answer(self: Site, question: Question) -> Reply:
    """Take the time, then answer."""
    time.sleep(PACE.get(self.client, 0.0))
    return _answer(self, question)


Site.answer = answer  # type: ignore[method-assign]
