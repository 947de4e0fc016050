"""What `make test` leaves to `make test-all`."""

import pytest

# Processes are started, and runs killed everywhere, for at least one method of every kind; the others differ from it
# in how answers are weighted or in what clients compute. Runs of FedTDD, FedPP and OneRound take seconds.
RULES = (
    "APPLE", "DAMe", "Ditto", "EdgeRanking", "EventsSurvey", "FedALA", "FedNeural", "FedPointProcess", "FedProx",
    "FedTDD", "Local", "PFDBNL", "PerFedAvg", "PostsSurvey", "SFL",
)  # fmt: skip
COSTLY = ("every_engine_gives_the_same_bits", "killed_anywhere_equals_never_killed")
FEDTDD = ("a_lost_answer_is_a_lost_question", "churn_costs_only_the_affected", "order_of_clients_is_irrelevant")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    costly = {f"test_contract[{rule}-{check}]" for rule in RULES for check in COSTLY}
    costly |= {f"test_contract[FedTDD-{check}]" for check in FEDTDD}
    costly |= {f"test_contract[{name}-{COSTLY[1]}]" for name in ("FedPP", "OneRound")}
    for item in items:
        if item.name in costly:
            item.add_marker(pytest.mark.slow)
