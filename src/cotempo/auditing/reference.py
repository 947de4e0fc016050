"""Scores of canary windows by a reference model: what the fitted model denoises better than one that never saw them.

Distance to the closest record is no evidence: diffusion models leak what such distances miss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.auditing.canaries import WindowCanaries
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.series.fitted import FittedFedTDD

#: Draws of diffusion steps and noise behind the loss of a window, the same for both models.
DRAWS = 64


def score_windows(fitted: FittedFedTDD, reference: FittedFedTDD, canaries: WindowCanaries, client: str) -> Floats:
    """Return for each canary by how much less the client's generator loses on it than the reference does.

    `reference` is learned the same way from the same tables without any canary, so that windows which are easy for
    everybody do not look like members. The middle of all scores is a half.
    """
    gains = np.array([_loss(reference, one, client) - _loss(fitted, one, client) for one in canaries.windows])
    return np.asarray(0.5 + gains - np.median(gains))


def _loss(fitted: Any, window: Floats, client: str) -> float:
    """Return the denoising loss of a client's generator on a window, in the generator's own units."""
    from cotempo.series.nn.training import TrainingWindows, judge

    method, memory = fitted.method, fitted.outcome.memories[client]
    names = fitted.outcome.schemas[client].columns
    own = window[:, [names.index(name) for name in method.inner_order(names)]]
    copies = np.repeat(memory.generator_scale.apply(own)[None], DRAWS, axis=0)
    schedule = method.schedule(method.local_steps)
    return judge(method.denoising(), memory.local_imputer, TrainingWindows.plain(copies), schedule)
