"""`SitePolicy`: what a site demands of a run before it takes part, and the range of every parameter it may be asked."""

from __future__ import annotations

import math
import sys
import typing
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from cotempo.data import Table
from cotempo.errors import CotempoError
from cotempo.federation.method import Method
from cotempo.privacy.contract import Contract
from cotempo.privacy.settings import Privacy
from cotempo.settings import Settings

MOST_LAGS = 5


class Refused(CotempoError):  # noqa: N818 - it says what happened
    """The site does not take part; its text may leave the site, so it quotes no data."""


class Allowed(Settings):
    """The values of a parameter that a site accepts besides the method's own default."""

    least: float | None = Field(default=None, allow_inf_nan=False, description="The smallest number.")
    most: float | None = Field(default=None, allow_inf_nan=False, description="The largest number.")
    values: tuple[bool | int | float | str, ...] = Field(default=(), description="Single values, text among them.")
    anything: bool = Field(default=False, description="Accept whatever the method accepts.")

    def accepts(self, value: Any) -> bool:
        """Return whether a value, or every value of a list, is accepted."""
        if self.anything or any(value == known and type(value) is type(known) for known in self.values):
            return True
        if isinstance(value, list | tuple):
            return all(self.accepts(item) for item in value)
        if isinstance(value, bool) or not isinstance(value, int | float) or (self.least is self.most is None):
            return False
        low, high = (
            self.least if self.least is not None else -math.inf,
            self.most if self.most is not None else math.inf,
        )
        return abs(value) <= sys.float_info.max and low <= value <= high

    def __str__(self) -> str:
        bounds = [
            f"{word} {value:g}"
            for word, value in (("at least", self.least), ("at most", self.most))
            if value is not None
        ]
        choices = [", ".join(map(str, self.values))] if self.values else []
        return " or ".join(["its default", *([" and ".join(bounds)] if bounds else []), *choices])


def _up_to(most: float, *values: bool | int | float | str, least: float = 0.0) -> Allowed:
    return Allowed(least=least, most=most, values=values)


_ANYTHING = Allowed(anything=True)
_RATE, _PENALTY, _SIZE, _STEPS = _up_to(1), _up_to(1e6, "auto"), _up_to(1024, least=1), _up_to(100_000)

SAFE: Mapping[str, Allowed] = {
    # What a message can tell of single rows grows with these.
    "lags": _up_to(MOST_LAGS, "auto"), "features": _up_to(50), "dimension": _up_to(300, least=2),
    "buckets": _up_to(2**15, least=16), "inducing": _up_to(200, least=2), "cells": _up_to(5040, least=20),
    "window": _up_to(1000, least=4), "context": _up_to(1000, least=4), "events": _up_to(1000, least=1),
    "FedPP.window": Allowed(least=-1e12, most=1e12), "period": _up_to(1e9, least=1e-3),
    # Encoders that come with cotempo; others would make the site load what the asker names.
    "encoder": Allowed(values=("shared", "hashed")),
    # The site's own value stands if it is larger.
    "minimum_rows": _up_to(1e9, least=1),
    # How often and how long a site computes.
    "rounds": _up_to(500, least=1), "base_rounds": _up_to(100, least=1), "refit_rounds": _up_to(100),
    "epochs": _up_to(50, least=1), "iterations": _up_to(100), "passes": _up_to(10), "restarts": _up_to(20),
    "patience": _up_to(1000), "probes": _up_to(100), "chunk": _up_to(100_000, least=1),
    **dict.fromkeys(
        ("pretrain_steps", "token_steps", "start_steps", "corrector_steps", "first_steps", "later_steps", "last_steps",
         "diffusion_steps", "sampler_steps"), _STEPS,
    ),
    # The optimisation, and the size of networks.
    **dict.fromkeys(
        ("learning_rate", "weight_decay", "rate", "imputer_rate", "inner_rate", "relation_rate", "mixing_rate",
         "tolerance", "shrinkage", "validation", "test", "warm_start"), _RATE,
    ),
    **dict.fromkeys(
        ("lambda_within", "lambda_across", "threshold", "threshold_across", "proximity", "mu", "coupling",
         "cycle_growth", "consensus_growth"), _PENALTY,
    ),
    **dict.fromkeys(
        ("width", "hidden", "heads", "outputs", "layers", "encoders", "decoders", "imputer_width", "imputer_layers",
         "tensors", "smallest", "size"), _SIZE,
    ),
    "batch": _up_to(4096, least=4),
    # Names of columns, and knowledge about them.
    **dict.fromkeys(("common", "forbidden", "required", "tiers", "candidates"), _ANYTHING),
    "device": _ANYTHING,  # the site's own list of devices is asked
}  # fmt: skip
"""What a site accepts unless its `[parameters]` say otherwise; of a parameter that stands in neither, the default."""


class SitePolicy(Settings):
    """What a site demands of a run before it takes part."""

    minimum_rows: int = Field(default=50, ge=0, description="Fewest rows of the site's own table.")
    minimum_clients: int = Field(default=3, ge=1, description="Fewest participants, this site among them.")
    parameters_per_row: float = Field(
        default=0.33, gt=0, allow_inf_nan=False, description="Most regressors, columns times lags and one, per row."
    )
    secure_sum: bool = Field(default=True, description="Whether sums must be masked.")
    weigh_rows: bool = Field(
        default=True,
        description="Whether rows of series get weights that only the site knows; without them sums of products at two "
        "lags give first and last rows back.",
    )
    epsilon: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Largest epsilon of a run; without it no noise is demanded.",
    )
    delta: float = Field(default=1e-5, gt=0, lt=1, description="Largest delta of a run with noise.")
    budget: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Largest sum of epsilons over all runs on a kind of table."
    )
    megabytes: float = Field(default=64.0, gt=0, allow_inf_nan=False, description="Largest message that may leave.")

    def require_parameters(self, method: Method, own: Mapping[str, Allowed]) -> None:
        """Raise `Refused` for a parameter that is neither a default of the method nor in the range this site allows."""
        name = type(method).__name__
        for parameter, value in method.model_dump(mode="json").items():
            field = type(method).model_fields[parameter]
            defaults = [field.get_default(call_default_factory=True)]
            defaults += [preset[parameter] for preset in method.presets.values() if parameter in preset]
            if _is_closed(field.annotation) or any(value == _plain(default) for default in defaults):
                continue
            keys = (f"{name}.{parameter}", parameter)
            allowed = next((table[key] for table in (own, SAFE) for key in keys if key in table), Allowed())
            if not allowed.accepts(value):
                raise Refused(
                    f"this site lets {parameter} of {name} be {allowed}, got {str(value)[:60]}; it can widen that in "
                    "[parameters] of its site.toml"
                )

    def require_privacy(self, contract: Contract) -> Privacy:
        """Raise `Refused` unless the run's privacy is what this site demands; return it."""
        if len(contract.participants) < self.minimum_clients:
            raise Refused(
                f"this site takes part among at least {self.minimum_clients} clients, there are "
                f"{len(contract.participants)}"
            )
        try:
            privacy = Privacy.read(contract.privacy, "privacy")
        except CotempoError:  # NaN, a negative epsilon, something unknown
            raise Refused("the run's privacy must be settings that this version of cotempo can keep") from None
        require_as_read(contract.privacy, privacy.model_dump(mode="json"))
        if self.secure_sum and not privacy.secure_sum:
            raise Refused("this site takes part only where sums are masked: [privacy] secure_sum = true")
        if privacy.epsilon is not None and privacy.seeded:
            raise Refused("this site draws its noise itself, so the run must not be seeded")
        if privacy.epsilon is not None and privacy.delta > self.delta:  # a promise that need not hold is none
            raise Refused(f"this site asks for delta at most {self.delta:g}, got delta {privacy.delta:g}")
        if self.epsilon is not None and not (privacy.epsilon is not None and privacy.epsilon <= self.epsilon):
            got = "no noise" if privacy.epsilon is None else f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g}"
            raise Refused(f"this site asks for epsilon at most {self.epsilon:g} and delta {self.delta:g}, got {got}")
        return privacy

    def require_rows(self, method: Method, table: Table) -> None:
        """Raise `Refused` if the table has too few rows, in all or for what is to be learned from it."""
        if table.rows < self.minimum_rows:
            raise Refused(f"this site takes part once its table has {self.minimum_rows} rows")
        lags = getattr(method, "lags", None)
        if lags is not None:
            regressors = len(table.schema.columns) * (1 + (MOST_LAGS if lags == "auto" else lags))
            if regressors > self.parameters_per_row * table.rows:
                raise Refused(
                    f"this site allows at most {self.parameters_per_row:g} regressors a row, and these lags need more "
                    "rows than its table has"
                )

    def guard(self, method: Method) -> Method:
        """Return the method with what guards rows at least as large as the site's own."""
        asked = getattr(method, "minimum_rows", None)
        if asked is None or asked >= self.minimum_rows:
            return method
        return type(method)(**{**method.model_dump(), "minimum_rows": self.minimum_rows})


def require_as_read(given: Mapping[str, Any], read: Mapping[str, Any]) -> None:
    """Raise `Refused` for a setting that is read as another: text or a truth value as a number, a number cut off."""
    for name, value in given.items():
        if not _is_as_read(value, read[name]):
            raise Refused(f"a contract must hold every setting as it is read, {name} is {str(value)[:60]!r}")


def _is_as_read(given: Any, read: Any) -> bool:
    if isinstance(given, Mapping) and isinstance(read, Mapping):
        return {*given} == {*read} and all(_is_as_read(given[key], read[key]) for key in given)
    if isinstance(given, list) and isinstance(read, list):
        return len(given) == len(read) and all(map(_is_as_read, given, read))
    return bool(given == read) and isinstance(given, bool) == isinstance(read, bool)


def _is_closed(annotation: Any) -> bool:
    """Return whether a parameter can take a few values only, all of the method author's choice."""
    return annotation is bool or typing.get_origin(annotation) is Literal


def _plain(value: Any) -> Any:
    """Return a default as it looks after a way through JSON."""
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
