"""What is expected of a secure sum: enough clients, valid answers in every stage, a total that these can add up to."""

from dataclasses import replace

import numpy as np

from cotempo.errors import MessageError, ParameterError
from cotempo.federation.exchange import Expect, Spec
from cotempo.federation.message import Message
from cotempo.privacy.secure_sum.client import FEWEST
from cotempo.privacy.secure_sum.envelopes import ENVELOPE_BYTES, KEY_BYTES
from cotempo.privacy.secure_sum.shamir import SHARE_BYTES


def opaque(**fields: tuple[tuple[int | None, ...], str]) -> Expect:
    """Return what an answer of the protocol looks like, by its fields' shapes and kinds."""
    return Expect({name: Spec(shape, kind) for name, (shape, kind) in fields.items()}, is_opaque=True)


ANNOUNCED = opaque(key=((KEY_BYTES,), "uint8"), signature=((64,), "uint8"))
SHARED = opaque(
    mask_key=((KEY_BYTES,), "uint8"),
    commitment=((32,), "uint8"),
    envelopes=((None, ENVELOPE_BYTES), "uint8"),
    accused=((None,), "uint16"),
)
ECHOED = opaque(signature=((64,), "uint8"))
REVEALED = opaque(shares=((None, SHARE_BYTES), "uint8"))
REVEALED_AND_SHARED = replace(REVEALED, fields={**REVEALED.fields, **SHARED.fields})


def require_enough(clients: int) -> None:
    """Raise `ParameterError` if there are too few clients to hide among."""
    if clients < FEWEST:
        raise ParameterError(
            f"a secure sum needs at least {FEWEST} clients in every step: of two, each could subtract its own part, "
            f"got {clients}"
        )


def check_total(total: Message, expect: Expect) -> None:
    """Raise `MessageError` if a total lies outside of what valid answers can add up to.

    With weights of at least zero, a weighted sum of values in [low, high] lies in [low, high] times the sum of weights.
    Rules of summed fields, such as to be positive semidefinite, hold for weighted sums as well.
    """
    slack = 1e-6
    for name, spec in expect.fields.items():
        for rule in spec.rules:
            if broken := rule(total[name]):
                raise MessageError(f"field {name!r} {broken}")
        for bound, sign in ((spec.low, 1), (spec.high, -1)):
            if np.isfinite(bound):
                least = sign * (np.asarray(total[name], np.float64) - bound * total.weight)
                if (least < -slack * max(1.0, abs(bound) * total.weight)).any():
                    raise MessageError(f"field {name!r} must lie in [{spec.low:g}, {spec.high:g}] on average")
    if not total.weight >= 0:
        raise MessageError(f"weights must add up to at least zero, got {total.weight:g}")
