"""A GPU is computed on when it was asked for, and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import cotempo as ct
from cotempo.devices import find_device, has_device
from cotempo.errors import ParameterError, RunError
from cotempo.federation.registry import methods
from cotempo.testing import example

NETWORKS = [name for name, cls in methods().items() if "device" in cls.model_fields]


@pytest.fixture
def seemingly_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says it has a GPU; computing on it fails."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("name", ["FedAvg", "FedTDD", "DAMe"])
def test_a_gpu_is_not_taken_unasked(name: str, seemingly_a_gpu: None) -> None:
    method, clients, public = example(methods()[name])
    assert method.fit(clients, public=public).rounds


def test_the_published_fedpp_takes_no_gpu_unasked(seemingly_a_gpu: None) -> None:
    clients, _ = ct.make_events(clients=2, sequences=3)
    assert ct.FedPP(preset="paper", rounds=1, epochs=1, inducing=5, cells=20).fit(clients).rounds == 1


def test_a_single_owner_takes_no_gpu_unasked(seemingly_a_gpu: None) -> None:
    table = ct.make_series(clients=1, length=60, features=2, missing=0.2)[0]["client-0"]
    sizes = {"window": 8, "width": 8, "heads": 2, "imputer_width": 8, "imputer_layers": 1, "batch": 8}
    model = ct.SeriesDiffusion(**sizes, imputer_steps=2, steps=2).fit(table)
    assert model.impute(table).values.shape == table.values.shape


@pytest.mark.parametrize("name", NETWORKS)
def test_the_cpu_is_the_default(name: str) -> None:
    assert methods()[name].model_fields["device"].default == "cpu"


@pytest.mark.parametrize("given", ["gpu", "cuda:7", ""])
def test_an_unknown_device_is_refused(given: str) -> None:
    with pytest.raises(ParameterError, match=r"device: .*'cpu' or 'cuda'"):
        ct.FedTDD(common=("x",), device=given)  # type: ignore[arg-type]


def test_a_device_is_refused_by_methods_that_do_not_use_one() -> None:
    with pytest.raises(ParameterError, match="FDBNL has no parameter 'device'"):
        ct.FDBNL(device="cuda")
    with pytest.raises(ParameterError, match="FedPP has no parameter 'device' here"):
        ct.FedPP(device="cuda")


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_done(no_gpu: None, tmp_path: Path) -> None:
    method, clients, public = ct.FedTDD.example()
    on_gpu = method.model_copy(update={"device": "cuda"})
    with pytest.raises(ParameterError, match="torch finds no GPU here"):
        on_gpu.fit(clients, public=public, run=tmp_path / "run")
    assert not (tmp_path / "run" / "experiment.toml").exists()
    with pytest.raises(ParameterError, match="torch finds no GPU here"):
        find_device("cuda")
    assert has_device("cpu")


def test_the_device_is_recorded_in_the_run(tmp_path: Path) -> None:
    method, clients, public = ct.FedTDD.example()
    method.fit(clients, public=public, run=tmp_path / "run")
    assert 'device = "cpu"' in (tmp_path / "run" / "experiment.toml").read_text()


def test_what_was_learned_on_a_gpu_can_be_loaded_on_a_machine_without(fitted_elsewhere: Path, no_gpu: None) -> None:
    assert ct.load(fitted_elsewhere).method.device == "cuda"
    loaded = ct.load(fitted_elsewhere, device="cpu")
    assert loaded.method.device == "cpu"
    table = example(ct.FedTDD)[1]["client-0"]
    assert loaded["client-0"].impute(table).rows == table.rows


def test_a_device_cannot_be_given_to_a_result_that_needs_none(tmp_path: Path) -> None:
    clients, _ = ct.make_series(clients=2, length=20)
    ct.FedMean().fit(clients).save(tmp_path)
    with pytest.raises((ParameterError, RunError), match="no parameter 'device'"):
        ct.load(tmp_path, device="cpu")


@pytest.fixture
def fitted_elsewhere(tmp_path: Path) -> Path:
    """A result as it is saved on a machine with a GPU."""
    method, clients, public = ct.FedTDD.example()
    folder: Path = method.fit(clients, public=public).save(tmp_path)
    about = folder / "fitted.json"
    about.write_text(about.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    return folder


def test_generated_windows_are_judged_on_the_cpu_unless_asked(seemingly_a_gpu: None) -> None:
    import numpy as np

    from cotempo.series.metrics import ContextFID, discriminative, predictive

    real: Any = np.random.default_rng(0).normal(size=(20, 8, 1))
    assert ContextFID.of(real, steps=1).score(real) >= 0
    assert discriminative(real, real, steps=1) >= 0
    assert predictive(real, real, steps=1) >= 0
