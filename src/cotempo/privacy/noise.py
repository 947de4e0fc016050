"""`Noise`: discrete Gaussian noise on everything a private form sends, at the client, before any masking."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cotempo.errors import MessageError
from cotempo.federation import Ask, Expect, Message, Method, Question, Rng
from cotempo.federation.shields import Shield
from cotempo.privacy.discrete_gaussian import Uniforms, discrete_gaussian, share_deviation, system_uniforms
from cotempo.privacy.private_form import PrivateForm
from cotempo.privacy.secure_sum.shield import SecureSumShield
from cotempo.typing import Array

#: Bits of a value below the deviation of its noise. Rounding to the grid then changes a sensitivity by 2**-GRID_BITS of
#: the deviation a value, which is added to the scale, and a sum of shares is as good as one draw (Kairouz et al. 2021).
GRID_BITS = 24


class Noise(Shield):
    """Adds the noise that a private form asks for, and answers every phase as often as its budget pays for.

    Parameters
    ----------
    method
        Says what each phase spends and how large its fields' scales are.
    fewest
        How many clients' noise will be in the sum at least; each then adds its share of the whole. By default each
        adds the whole, because its message may be read alone.
    """

    at_sites = "noise"

    def __init__(self, method: PrivateForm, fewest: Callable[[Question], int] = lambda question: 1):
        self.method = method
        self.fewest = fewest
        self._answered: dict[tuple[str, str, str], set[int]] = {}

    @classmethod
    def among(cls, method: Method, shields: Sequence[Shield]) -> Noise:
        """Return the noise of a private form; in shares if one of the shields is the secure sum."""
        assert isinstance(method, PrivateForm)
        sums = [shield for shield in shields if isinstance(shield, SecureSumShield)]
        return cls(method, sums[0].fewest) if sums else cls(method)

    def before(self, ask: Ask, expect: Expect) -> Expect:
        """Say on which grid noised values lie: a scale agreed on by clients would tell how large theirs are."""
        if ask.phase not in self.method.budget:
            return expect
        empty = Message({name: np.zeros([size or 0 for size in spec.shape]) for name, spec in expect.fields.items()})
        multiplier, scales = self.method.multiplier(ask.phase), self.method.scales(ask.phase, empty)
        fields = {
            name: replace(spec, grid=grid_exponent(multiplier, scales[name])) for name, spec in expect.fields.items()
        }
        return replace(expect, fields=fields)

    def protect(self, message: Message, question: Question, rng: Rng) -> Message:
        """Return the message with noise; raise `MessageError` if the budget does not pay for it."""
        method, phase = self.method, question.phase
        if phase not in method.budget:
            if len(message):
                raise MessageError(f"phase {phase!r} must send nothing: no part of the budget is for it")
            return message
        # Spent before anything is sent. The same step may be asked again: at a site it gets the stored answer.
        answered = self._answered.setdefault((question.run, question.client, phase), set())
        answered.add(question.step)
        if len(answered) > method.budget[phase][1]:
            raise MessageError(f"phase {phase!r} must be asked at most {method.budget[phase][1]} times, it was before")
        if message.weight != 1:
            raise MessageError(f"a private message must have the weight 1, which says nothing, got {message.weight:g}")
        scales = method.scales(phase, message)
        if {*scales} != {*message}:
            raise MessageError(f"every field must have a scale, got {sorted(scales)} for {sorted(message)}")
        multiplier, fewest = method.multiplier(phase), self.fewest(question)
        uniforms = rng("privacy").random if method.privacy.seeded else system_uniforms
        return Message(
            {
                name: add_noise(np.asarray(value, np.float64), multiplier, scales[name], fewest, uniforms)
                for name, value in message.items()
            }
        )


def add_noise(values: Array, multiplier: float, scale: float, fewest: int, uniforms: Uniforms) -> Array:
    """Return values on a grid of a power of two, with discrete Gaussian noise of ``multiplier * scale`` in `fewest`.

    A scale of 0, of what no unit can change, gives no noise.
    """
    spacing = 2.0 ** grid_exponent(multiplier, scale)
    if not scale:
        return np.asarray(np.rint(values / spacing) * spacing)
    # Two values that differ by s differ, once rounded, by at most s and one grid step a value.
    deviation = multiplier * (scale + spacing * math.sqrt(values.size))
    drawn = discrete_gaussian(share_deviation(deviation, fewest) / spacing, values.shape, uniforms)
    return np.asarray((np.rint(values / spacing) + drawn) * spacing)


def grid_exponent(multiplier: float, scale: float) -> int:
    """Return the exponent of the grid, the same at all clients."""
    return math.floor(math.log2(multiplier * (scale or 1.0))) - GRID_BITS
