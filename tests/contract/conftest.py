"""What `make test` leaves to `make test-all`."""

import pytest

# These differ from FedAvg in how answers are weighted, or from SeriesSurvey in the figures; FedAvg, DAMe and
# SeriesSurvey start processes and are killed in every run.
RULES = ("APPLE", "Ditto", "FedALA", "FedProx", "Local", "PerFedAvg", "SFL", "EventsSurvey", "PostsSurvey")
COSTLY = ("every_engine_gives_the_same_bits", "killed_anywhere_equals_never_killed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    costly = {f"test_contract[{rule}-{check}]" for rule in RULES for check in COSTLY}
    costly.add(f"test_contract[FedTDD-{COSTLY[1]}]")  # ten runs of its many phases; FedPP has as many kinds of phases
    for item in items:
        if item.name in costly:
            item.add_marker(pytest.mark.slow)
