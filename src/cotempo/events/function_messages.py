"""What valid answers look like while a shared function is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cotempo.events.function_state import FunctionState
from cotempo.events.rows import DIMENSIONS, KNOTS
from cotempo.events.summary import OCTAVES
from cotempo.federation.exchange import Expect, Spec

if TYPE_CHECKING:
    from cotempo.events.fedpp import FedPP


def expects(method: FedPP, state: FunctionState, phase: str) -> Expect:
    """What valid answers look like; all but the span and the comparison are sums."""
    if phase == "span":
        about = "first start and last end of your windows, rounded outwards"
        return Expect({"start": Spec((), "float", about=about), "end": Spec((), "float", about=about)})
    if phase == "compare":
        about = "gain per event held out, together, on the base measure and by yourself; the number of events held out"
        names = ("together", "base", "events", *(("alone",) if method.compare else ()))
        return Expect({name: Spec((), "float", about=about) for name in names})
    if phase == "describe":
        totals = Spec((2,), low=0, about="your number of events and your exposure")
        gaps = Spec((len(OCTAVES) - 1,), low=0, about="how many gaps between your events are of each length")
        return Expect({"totals": totals, "gaps": gaps}, sums=True)
    if phase in ("base", "choose"):
        about = "sums for the base measures" if phase == "base" else "held-out log-likelihood of the base measures"
        sizes = {name: 1 if phase == "choose" else _statistics_size(name, state) for name in method.candidates}
        return Expect({f"of {name}": Spec((size,), about=about) for name, size in sizes.items()}, sums=True)
    if phase == "features":
        size = KNOTS if method.kernel == "time" else 1 + DIMENSIONS + DIMENSIONS**2
        spread = Spec((2,), low=0, about="how much counts of your sequences vary")
        return Expect({"dispersion": spread, "moments": Spec((size,), about="moments of your features")}, sums=True)
    size = len(state.inducing)
    if phase == "curvature":
        return Expect({"curvature": Spec((size, size), about="your information about the shared function")}, sums=True)
    return Expect(
        {
            "quadratic": Spec((size, size), about="precision your events give the shared function"),
            "linear": Spec((size,), about="precision times mean your events give the shared function"),
            "gradient": Spec((len(state.kernel),), about="slope of your fit in the kernels' parameters"),
            "spread": Spec((2,), low=0, about="squared misfit and expected events over coarse stretches"),
            "fit": Spec((), "float", about="your fit"),
            "level": Spec((4,), about="your expected level, its logarithm, and the events and exposure behind it"),
        },
        sums=True,
    )


def _statistics_size(name: str, state: FunctionState) -> int:
    size = len(state.candidates[name])
    return size if name == "renewal" else 2 * size
