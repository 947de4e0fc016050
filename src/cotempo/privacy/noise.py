"""`Noise`: discrete Gaussian noise on everything a private form sends, at the client, before any masking."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cotempo.errors import MessageError, ParameterError
from cotempo.federation import Ask, Expect, Message, Method, Question, Rng
from cotempo.federation.shields import Shield
from cotempo.privacy.discrete_gaussian import Uniforms, discrete_gaussian, share_deviation, system_uniforms
from cotempo.privacy.private_form import PrivateForm
from cotempo.privacy.secure_sum.shield import SecureSumShield
from cotempo.storage.files import write_whole
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
    path
        A file of a site for what was answered. With it a step is noised once, whoever restarts: asked again, a site has
        its stored answer, and if that is lost, fresh noise would average out.
    """

    at_sites = "noise"

    def __init__(
        self, method: PrivateForm, fewest: Callable[[Question], int] = lambda question: 1, path: Path | None = None
    ):
        self.method = method
        self.fewest = fewest
        self.path = path
        self._answered: dict[str, list[int]] = {}
        if path is not None and path.exists():
            self._answered = json.loads(path.read_bytes())

    @classmethod
    def among(cls, method: Method, shields: Sequence[Shield], path: Path | None = None) -> Noise:
        """Return the noise of a private form; in shares if one of the shields is the secure sum."""
        if not isinstance(method, PrivateForm):
            must = "a method's `private` must return a cotempo.privacy.private_form.PrivateForm"
            raise ParameterError(f"{must}, which says how noise is sized, got {type(method).__name__}")
        for shield in shields:
            if isinstance(shield, SecureSumShield):
                shield.noised_phases = frozenset(method.budget)
                return cls(method, shield.fewest, path)
        return cls(method, path=path)

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
        if message.weight != 1:
            raise MessageError(f"a private message must have the weight 1, which says nothing, got {message.weight:g}")
        scales = method.scales(phase, message)
        if {*scales} != {*message}:
            raise MessageError(f"every field must have a scale, got {sorted(scales)} for {sorted(message)}")
        multiplier, fewest = method.multiplier(phase), self.fewest(question)
        self._spend(question)
        uniforms = rng("privacy").random if method.privacy.seeded else system_uniforms
        return Message(
            {
                name: add_noise(np.asarray(value, np.float64), multiplier, scales[name], fewest, uniforms)
                for name, value in message.items()
            }
        )

    def _spend(self, question: Question) -> None:
        """Count an answer, before anything is sent; raise `MessageError` if the budget does not pay for it.

        Without a file the same step may be asked again: clients of this process are asked twice by a batch that fails.
        """
        key, most = f"{question.run} {question.client} {question.phase}", self.method.budget[question.phase][1]
        answered = self._answered.setdefault(key, [])
        if question.step in answered:
            if self.path is not None:
                raise MessageError(f"step {question.step} was noised before, and what was answered is lost")
            return
        if len(answered) >= most:
            raise MessageError(f"phase {question.phase!r} must be asked at most {most} times, it was before")
        answered.append(question.step)
        if self.path is not None:
            write_whole(self.path, json.dumps(self._answered).encode())


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
