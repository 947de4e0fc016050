"""What joining was worth is told of the model that clients keep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import cotempo as ct
from cotempo.events.shared_function.client import first_state
from cotempo.federation import Answers, Message
from cotempo.federation.benefit import tally


def test_the_verdict_is_of_the_model_kept_where_half_the_events_would_not_choose_it() -> None:
    method, clients = ct.FedPP(), 6
    draws = np.random.default_rng(0).normal(size=(clients, 2))
    draws = (draws - draws.mean(axis=0)) / draws.std(axis=0, ddof=1)
    gains = np.zeros((clients, 3, 2))  # half of the clients' gains do not show surely that the second model is better
    gains[:, 1:] = (0.75 + draws)[:, None]
    products = np.einsum("cmh,cnh->hmn", gains, gains)
    told = [tally(np.array([[0.1, gain, 0.01] for gain in own.sum(axis=1)]), 3) for own in gains]
    total = {"gains": gains.sum(axis=0), "products": products, "events": 100.0, "joining": sum(told)}
    names = tuple(f"c{number}" for number in range(clients))
    state = replace(first_state(method, clients), stage="compare", kernel=np.zeros(5), mean=np.zeros(2))  # type: ignore[arg-type]
    after, _ = method.absorb(state, Answers(names, total=Message(total, weight=float(clients)), each={}), None, None)  # type: ignore[arg-type]
    assert after.kept == "base"
    assert after.joining.choice == (1,)
    assert after.joining.gain > 1
