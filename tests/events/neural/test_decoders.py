"""Dec-ODE, TCVAE and TCDDM: densities that integrate to one, and what they learn of a known process."""

import numpy as np
import pytest
import torch

from cotempo.data import make_events
from cotempo.events import FedNeural
from cotempo.events.neural.federated import EVENT, PADDING, START
from cotempo.events.neural.generative import Mixture

OWN = ("dec-ode", "tcvae", "tcddm")


@pytest.fixture(scope="module")
def clients():
    return make_events(clients=2, sequences=20, kind="hawkes", excitation=0.8, seed=4)[0]


@pytest.mark.parametrize("name", OWN)
def test_the_density_of_the_next_gap_integrates_to_one(clients, name):
    """By quadrature of rate times exp(-integral), with what survives; the integral is the model's own."""
    method = FedNeural(model=name, rounds=2, epochs=2, compare=False)
    memory = method.fit(clients, progress=False).outcome.memories["client-0"]
    model = method.new_model(0, memory.best).double()
    edges = np.concatenate([[0.0], np.geomspace(1e-7, 60.0, 40_000)])
    at = torch.tensor(edges)[None, None]
    history = torch.tensor([[0.0, 0.4, 0.5]], dtype=torch.float64)
    before = torch.tensor([[0.0, 0.4, 0.1]], dtype=torch.float64)
    kind, phase = torch.tensor([[START, EVENT, EVENT]]), torch.zeros(1, 3, dtype=torch.float64)
    with torch.no_grad():
        rate = model.rate(history, before, kind, phase, at.expand(1, 3, -1))[0, -1].numpy()
        # The integral to a time within the last gap, which is open: one row for each of some times.
        some = np.linspace(0, len(edges) - 1, 200).astype(int)[1:]
        ends = torch.tensor([[0.4, 0.1, edges[i]] for i in some])
        rows = [part.expand(len(some), -1) for part in (history, before, kind, phase)]
        mass = model.rate_and_mass(*rows, ends)[1][:, -1].numpy()
    by_quadrature = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(edges))])
    np.testing.assert_allclose(mass, by_quadrature[some], rtol=1e-3, atol=1e-3)
    survival = np.exp(-np.interp(edges, edges[some], mass, left=0.0))
    density = rate * np.exp(-by_quadrature)
    whole = ((density[1:] + density[:-1]) / 2 * np.diff(edges)).sum() + survival[-1]
    assert whole == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", OWN)
def test_padding_and_the_future_change_nothing(clients, name):
    model = FedNeural(model=name).new_model(0, seed=3)
    time = torch.tensor([[0.0, 1.0, 1.5, 0.0]])
    before, kind = torch.tensor([[0.0, 1.0, 0.5, 0.0]]), torch.tensor([[START, EVENT, EVENT, PADDING]])
    end, phase = torch.tensor([[1.0, 0.5, 2.0, 0.0]]), torch.zeros(1, 4)
    with torch.no_grad():
        rate, mass = model.rate_and_mass(time, before, kind, phase, end)
        early = model.rate_and_mass(time[:, :2], before[:, :2], kind[:, :2], phase[:, :2], end[:, :2])
    assert mass[0, -1] == 0
    torch.testing.assert_close((rate[:, :2], mass[:, :2]), early)


@pytest.mark.parametrize("name", OWN)
def test_the_same_seed_trains_the_same_model(clients, name):
    method = FedNeural(model=name, rounds=1, compare=False)
    first, second = (method.fit(clients, seed=5, progress=False).state.weights for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_longer_gap_is_drawn_from_the_tail():
    """A standard normal log gap above 1: its mean there is the inverse Mills ratio."""
    size = 20_000
    mixture = Mixture(torch.zeros(1, size, 1), torch.ones(1, size, 1), torch.zeros(1, size, 1))
    drawn = mixture.draw_longer(torch.full((1, size), float(np.e)), torch.Generator().manual_seed(0))
    assert float(drawn.min()) >= 1
    assert float(drawn.mean()) == pytest.approx(1.5251, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_excitation_is_learned(clients, name):
    fitted = FedNeural(model=name, rounds=15, epochs=4, learning_rate=0.01, compare=False).fit(clients, progress=False)
    model = fitted["client-0"]
    assert model.score(clients["client-0"])["gain"] > 0.05
    assert model.intensity([5.01], [4.98, 4.99, 5.0]).mean > model.intensity([5.01], [1.0]).mean
