"""What valid answers look like while a curve or a function is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cotempo.events.curves.levels import SETTINGS
from cotempo.events.records.design import DIMENSIONS
from cotempo.events.records.record import FOLDS
from cotempo.events.records.summary import OCTAVES
from cotempo.events.shared_function.server import ITERATED
from cotempo.events.shared_function.state import FunctionState
from cotempo.federation import Expect, Spec

if TYPE_CHECKING:
    from cotempo.events.fedpp import FedPP


def expects(method: FedPP, state: FunctionState, phase: str) -> Expect:
    """What valid answers look like; all but the span, and a comparison of models or clients, are sums."""
    if phase == "span":
        about = "first start and last end of your windows, rounded outwards"
        return Expect({"start": Spec((), "float", description=about), "end": Spec((), "float", description=about)})
    if phase == "compare":
        about = "gain of each model on both halves of your held-out events"
        fields = {
            "gains": Spec((len(method.models), 2), description=about),
            "events": Spec((), "float", low=0, description="how many events you held out"),
        }
        alone = {"alone": Spec((), "float", description="gain per held-out event of what you learned by yourself")}
        return Expect({**fields, **(alone if method.compares else {})}, sums=method.sums_up)
    return Expect(_summands(method, state, phase), sums=True)


def _summands(method: FedPP, state: FunctionState, phase: str) -> dict[str, Spec]:
    spread = Spec((2, 3), low=0, description="how much counts of your sequences, or blocks of a single one, vary")
    if phase == "describe":
        return {
            "totals": Spec((2,), low=0, description="your number of events and your exposure"),
            "gaps": Spec(
                (len(OCTAVES) - 1,), low=0, description="how many gaps between your events are of each length"
            ),
        }
    if phase in ("count", "recount"):
        size = (FOLDS, method.cells)
        return {
            "events": Spec(size, low=0, description="how many events you have in each cell of time"),
            "exposure": Spec(size, low=0, description="how long you watched each cell of time, times your level"),
            "spread": Spec((2,), low=0, description="squared misfit and expected events over coarse stretches"),
            "dispersion": spread,
        }
    if phase in ("level", "relevel"):
        about = "held-out log-likelihood of your events by strength of the common level and size of deviations"
        return {"told": Spec((2, len(SETTINGS)), description=about)}
    if phase == "choose":
        return {
            f"of {name}": Spec((1,), description="held-out log-likelihood of base measures")
            for name in method.candidates
        }
    if phase in ("base", "rebase"):
        names = [state.design.base] if phase == "rebase" else [n for n in method.candidates if n in ITERATED]
        sizes = {name: len(state.candidates[name]) * (1 if name == "renewal" else 2) for name in names}
        return {f"of {name}": Spec((size,), description="sums for the base measures") for name, size in sizes.items()}
    if phase == "features":
        moments = Spec((1 + DIMENSIONS + DIMENSIONS**2,), description="moments of your features")
        return {"dispersion": spread, "moments": moments}
    count = len(state.inducing)
    if phase == "curvature":
        return {"curvature": Spec((count, count), description="your information about the shared function")}
    return {
        "quadratic": Spec((count, count), description="precision your events give the shared function"),
        "linear": Spec((count,), description="precision times mean your events give the shared function"),
        "gradient": Spec((len(state.kernel),), description="slope of your fit in the kernel's parameters"),
        "fit": Spec((), "float", description="your fit"),
        "level": Spec((4,), description="your expected level, its logarithm, and the events and exposure behind it"),
    }
