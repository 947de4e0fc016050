from __future__ import annotations

import pytest

from cotempo import social
from cotempo.errors import ParameterError
from cotempo.federation import registry
from cotempo.federation.registry import find_method, methods, register


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    methods()  # what was announced is loaded first
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.setattr(registry, "_ALIASES", dict(registry._ALIASES))


def test_capitals_and_other_names_do_not_matter() -> None:
    assert find_method("fedavg") is find_method("FedAvg") is social.FedAvg
    assert find_method("per-fedavg") is social.PerFedAvg
    with pytest.raises(ParameterError, match="did you mean"):
        find_method("FedAvgg")


def test_a_taken_name_is_refused_and_keeps_its_holder() -> None:
    class FedAvg(social.DAMe):
        pass

    class Other(social.DAMe):
        pass

    with pytest.raises(ParameterError, match=r"'FedAvg' is that of cotempo\.social\.baselines\.FedAvg"):
        register()(FedAvg)
    with pytest.raises(ParameterError, match="'per-fedavg' is that of"):
        register("per-fedavg")(Other)
    assert find_method("FedAvg") is social.FedAvg
    assert "Other" not in methods()


def test_a_module_that_is_loaded_again_registers_again() -> None:
    again = type("FedAvg", (social.FedAvg,), {"__module__": social.FedAvg.__module__})
    assert register()(again) is find_method("FedAvg")
