"""What may cross: what each answer of a client must hold, and which clients can take part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cotempo.errors import Problem, SchemaError
from cotempo.federation import Expect, Spec

if TYPE_CHECKING:
    from cotempo.federation import Roster
    from cotempo.series.fedtdd import FedTDD


def expects(method: FedTDD, phase: str) -> Expect:
    """Counts, losses, and synthetic windows of the common features."""
    error = "mean absolute error on measured cells hidden for the purpose, in units of half the range"
    if phase == "join":
        return Expect({"windows": Spec((), "int", low=0, description="how many windows your series have")})
    if phase == "fill":
        return Expect({"missing": Spec((), "float", 0, 1, description="share of your cells that are missing")})
    if phase == "score":
        names = {"alone": "of what you can do by yourself", "together": "with what was learned together"}
        errors = {name: Spec((), "float", low=0, description=f"{error}, {text}") for name, text in names.items()}
        return Expect({**errors, "cells": Spec((), "int", low=0, description="how many measured cells were set apart")})
    if phase == "share":
        shape = (None, method.window, len(method.common))
        about = "synthetic windows of the common features, none of them near to a real one"
        return Expect(
            {
                "windows": Spec(shape, method.precision, -100, 100, description=about),
                "withheld": Spec((), "int", low=0, description="how many synthetic windows stay with you"),
                "membership": Spec(
                    (), "float", 0, 1, description="how well they tell who was trained on; 0.5: not at all"
                ),
            }
        )
    return Expect({"loss": Spec((), "float", low=0, description="the training loss of your model")})


def check(method: FedTDD, roster: Roster) -> None:
    """Raise `SchemaError` unless clients have all common features and the same unit of time."""
    problems = []
    for name in roster.names:
        schema = roster.schemas[name]
        if schema.kind != method.kind:
            problems.append(Problem(f"the table must hold series, it holds {schema.kind}", client=name))
            continue
        for feature in method.common:
            if feature not in schema.columns:
                must = "every client must have this common feature; a column of missing values will do"
                problems.append(Problem(must, client=name, column=feature))
        if schema.unit != roster.schema.unit:
            must = f"the unit of time must be {roster.schema.unit!r} as at {roster.names[0]}, it is {schema.unit!r}"
            problems.append(Problem(must, client=name))
    if problems:
        raise SchemaError(problems)
