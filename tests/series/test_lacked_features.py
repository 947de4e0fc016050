"""A sensor that one plant lacks: the others know it as well as without that plant, and it is estimated there."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import cotempo as ct
from cotempo.federation import Message, Rng, Roster
from cotempo.robust.screening import find_suspects
from cotempo.series.fedmoments import contribute

ROWS, GAP = 800, slice(300, 500)


def plants(levels: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)) -> dict[str, pd.DataFrame]:
    """Two sensors that wander, and a third that follows from them; plants lie at different levels."""
    stream, found = np.random.default_rng(0), {}
    for number, level in enumerate(levels):
        wander = np.zeros((ROWS, 2))
        for row in range(1, ROWS):
            wander[row] = 0.97 * wander[row - 1] + stream.normal(size=2)
        a, b = wander.T + level
        y = 50 + 2 * a - 1.5 * b + 0.3 * stream.normal(size=ROWS)
        time = pd.date_range("2025-01-01", periods=ROWS, freq="5min", tz="UTC")
        found[f"p{number}"] = pd.DataFrame({"a": a, "b": b, "y": y}, index=time)
    return found


def error(model: object, table: object, truth: pd.Series, rows: slice) -> float:
    filled = model.impute(table, level=()).to_frame()["y"].to_numpy()  # type: ignore[attr-defined]
    return float(np.abs(filled - truth.to_numpy())[rows].mean())


@pytest.fixture(scope="module", params=["no column", "an empty column"])
def lacking(request):
    """What four plants with a gap at p0 learn where p3 lacks y."""
    truth = plants()
    tables = {name: frame.copy() for name, frame in truth.items()}
    tables["p0"].iloc[GAP, 2] = np.nan
    tables["p3"] = tables["p3"].drop(columns="y") if request.param == "no column" else tables["p3"].assign(y=np.nan)
    clients = ct.read_series(tables)
    return clients, ct.FedMoments(window=6).fit(clients, progress=False), truth


def test_a_plant_that_lacks_a_sensor_does_not_spoil_it_for_the_others(lacking):
    clients, fitted, truth = lacking
    for model in (fitted["p0"], fitted.pooled("p0")):
        assert error(model, clients["p0"], truth["p0"]["y"], GAP) < 0.5  # the noise alone is .24, y varies by 10


def test_a_sensor_that_a_plant_lacks_is_estimated_from_what_the_others_know(lacking):
    clients, fitted, truth = lacking
    assert error(fitted.pooled("p0"), clients["p3"], truth["p3"]["y"], slice(None)) < 0.6


def test_a_lacking_plant_may_lie_at_another_level():
    truth = plants((-5.0, 5.0, 0.0, 20.0))
    clients = ct.read_series(truth | {"p3": truth["p3"].drop(columns="y")})
    fitted = ct.FedMoments(window=6).fit(clients, progress=False)
    assert error(fitted.pooled("p0"), clients["p3"], truth["p3"]["y"], slice(None)) < 1.0  # of a level 10 higher


def test_nothing_more_is_sent_of_features_that_all_have():
    fitted = ct.FedMoments(window=6).fit(ct.read_series(plants()), progress=False)
    assert not len(fitted.state.lacked)
    assert not fitted.state.levels.size


def test_a_plant_is_not_suspected_for_what_it_lacks():
    truth = plants((0.0,) * 6)
    clients = ct.read_series(truth | {"p3": truth["p3"].drop(columns="y")})
    fitted = ct.FedMoments(window=6).fit(clients, progress=False)
    assert not fitted.failures
    assert error(fitted.pooled("p0"), clients["p3"], truth["p3"]["y"], slice(None)) < 0.6


@pytest.mark.parametrize("field", [0, 1, 2])
def test_a_plant_that_forges_what_is_told_again_of_its_features_is_found(field: int):
    clients = ct.read_series(plants((0.0, 1.0, 2.0, 3.0, 4.0, 5.0)))
    clients["p5"] = clients["p5"].select(features=["a", "b"])
    method = ct.FedMoments(window=6)
    roster = Roster({name: table.schema for name, table in clients.items()})
    state = method.open(roster, None, Rng(0, "server", 0, "open"))
    question = Message({"features": json.dumps(state.features)})
    told = {name: contribute("centre", question, method.prepare(table)) for name, table in clients.items()}
    told = {name: message if isinstance(message, Message) else Message(message) for name, message in told.items()}
    expect = method.expects(state, "centre")
    assert find_suspects(told, expect) == {}
    forged = np.array(told["p1"]["having"])
    forged[field] = forged[field] * 1000.0 + (field == 2)
    told["p1"] = Message({**told["p1"], "having": forged})
    assert set(find_suspects(told, expect)) == {"p1"}
