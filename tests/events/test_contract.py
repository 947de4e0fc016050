"""The contract on the variants that the registered examples do not show."""

import pytest

from cotempo.data import make_events
from cotempo.events import FedPointProcess, FedPP
from cotempo.testing.contract import CHECKS

VARIANTS = {
    "curve of time": FedPP(kernel="time", cells=48, compare=False),
    "function of history": FedPP(kernel="history", rounds=1, base_rounds=1, inducing=5, refit_rounds=0, base="hawkes"),
    "paper": FedPP(preset="paper", rounds=1, epochs=2, inducing=5, cells=48, batch=2),
    "paper by mmd": FedPP(preset="paper", kernel="time", aggregation="mmd", rounds=1, epochs=1, inducing=4, cells=48),
    "paper by lstm and types": FedPP(
        preset="paper", kernel="lstm", marks=True, base="hawkes", base_rounds=1, rounds=1, epochs=1, inducing=4, batch=3
    ),
    "simple, compared": FedPointProcess(process="hawkes1", rounds=1, compare=True),
    "renewal": FedPointProcess(process="renewal", rounds=1),
}
QUICK = ("order_of_clients_is_irrelevant", "batched_equals_looped", "verbs_change_nothing_they_are_given",
         "state_and_memory_survive_disk", "nothing_raw_crosses", "a_lost_answer_is_a_lost_question",
         "bad_messages_are_left_out", "churn_costs_only_the_affected")  # fmt: skip
CLIENTS, _ = make_events(clients=3, sequences=5, length=4.0, marks=2, seed=1)


@pytest.mark.parametrize("check", QUICK)
@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_keeps_the_contract(variant, check, tmp_path):
    CHECKS[check](VARIANTS[variant], CLIENTS, None, tmp_path)
