"""Another generator in the place of FedTDD's diffusion models: a normal law of windows."""

import numpy as np
import pytest

import cotempo as ct
from cotempo.errors import ParameterError
from cotempo.federation import Rng
from cotempo.series import FedTDD, register_generator
from cotempo.testing import CHECKS


class NormalWindows:
    """Mean and root of the covariance of whole windows; gaps by their conditional law."""

    def fit(self, weights, windows, counts, steps, rng):
        flat = windows.reshape(len(windows), -1)
        covariance = np.cov(flat, rowvar=False) + 1e-3 * np.eye(flat.shape[1])
        return np.concatenate([flat.mean(axis=0), np.linalg.cholesky(covariance).ravel()]), 0.0

    def _law(self, weights, size):
        return weights[:size], weights[size:].reshape(size, size)

    def sample(self, weights, shape, rng):
        mean, root = self._law(weights, shape[1] * shape[2])
        return (mean + rng("sample").standard_normal((shape[0], len(mean))) @ root.T).reshape(shape)

    def impute(self, weights, windows, seen, rng):
        mean, root = self._law(weights, windows[0].size)
        covariance, found = root @ root.T, windows.reshape(len(windows), -1).copy()
        for row, known in zip(found, seen.reshape(len(seen), -1), strict=True):
            slope = np.linalg.solve(covariance[np.ix_(known, known)], covariance[np.ix_(known, ~known)])
            row[~known] = mean[~known] + (row[known] - mean[known]) @ slope
        return found.reshape(windows.shape)


register_generator("normal windows", NormalWindows())


@pytest.fixture(scope="module")
def federation():
    made, _ = ct.make_series(clients=4, length=120, features=3, missing=0.2, seed=0)
    *names, last = sorted(made)
    method = FedTDD(
        common=("x0", "x1"), preset="paper", generator="normal windows", rounds=2, window=4, pretrain_steps=1,
        first_steps=1, later_steps=1,
    )  # fmt: skip
    return method, {name: made[name] for name in names}, made[last]


def test_the_printed_loop_runs_with_another_generator(federation):
    method, clients, public = federation
    fitted = method.fit(clients, public=public)
    model, table = fitted["client-0"], clients["client-0"]
    size = method.window * len(table.features)
    assert len(fitted.outcome.memories["client-0"].local_imputer.average) == size + size**2
    assert len(fitted.state.bank) > 0
    filled = model.impute(table).values
    assert np.isfinite(filled).all()
    np.testing.assert_allclose(filled[~np.isnan(table.values)], table.values[~np.isnan(table.values)])
    drawn = model.sample(400).values.reshape(-1, 3)
    np.testing.assert_allclose(drawn.mean(axis=0), np.nanmean(table.values, axis=0), atol=0.5)
    with pytest.raises(ParameterError, match="to decompose series"):
        model.decompose(table)


@pytest.mark.parametrize("name", ["batched_equals_looped", "state_and_memory_survive_disk"])
def test_the_contract_holds_with_another_generator(name, federation, tmp_path):
    CHECKS[name](*federation, tmp_path)


def test_it_imputes_by_the_law_it_learned():
    """Windows whose second row repeats the first: a missing second row is the first."""
    first = np.random.default_rng(0).normal(size=(500, 1, 1))
    windows, generator = np.concatenate([first, first], axis=1), NormalWindows()
    weights, _ = generator.fit(np.zeros(0), windows, windows > -np.inf, 1, Rng(0))
    seen = np.array([[[True], [False]]])
    filled = generator.impute(weights, np.array([[[0.7], [0.0]]]), seen, Rng(0))
    assert filled[0, 1, 0] == pytest.approx(0.7, abs=0.05)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match="generator must be one of 'diffusion'"):
        FedTDD(common=("x0",), preset="paper", generator="no such")
    with pytest.raises(ParameterError, match="distiller must be 'diffusion'"):
        FedTDD(common=("x0",), generator="normal windows")
    with pytest.raises(ParameterError, match="FedTDD's own"):
        register_generator("diffusion", NormalWindows())
