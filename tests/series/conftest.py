"""Small settings and data that all tests of the family share."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cotempo.data import make_series
from cotempo.series import FedTDD, SeriesDiffusion


@pytest.fixture(scope="session")
def small() -> SeriesDiffusion:
    return SeriesDiffusion(
        window=8, width=8, heads=2, imputer_width=8, imputer_layers=1, diffusion_steps=20, sampler_steps=4, batch=16,
        imputer_steps=30, steps=30,
    )  # fmt: skip


@pytest.fixture(scope="session")
def table():
    return make_series(clients=1, length=120, features=3, missing=0.3, seed=1)[0]["client-0"]


@pytest.fixture(scope="session")
def model(small, table):
    return small.fit(table)


@pytest.fixture(scope="session")
def federation():
    return FedTDD.example()


@pytest.fixture(scope="session")
def fitted(federation):
    method, clients, public = federation
    return method.fit(clients, public=public)


@pytest.fixture(scope="session")
def etth() -> np.ndarray:
    root = Path(os.environ.get("COTEMPO_DATA", Path(__file__).parents[3] / "shared" / "data"))
    file = root / "series" / "ETTh1.csv.gz"
    if not file.is_file():
        pytest.skip("the ETTh1 data are not here; set COTEMPO_DATA to their folder")
    return np.genfromtxt(file, delimiter=",", skip_header=1, usecols=range(1, 8))
