import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats

from cotempo.data import Events, make_events
from cotempo.errors import DataError
from cotempo.events import FedPP, SigmoidCox, read_event_archive, rescaling_test
from cotempo.events.plots import legible_part, plot_intensities, plot_quantiles

DATA = Path(os.environ.get("COTEMPO_DATA", Path(__file__).parents[3] / "shared" / "data")) / "events"


def test_rescaling_by_the_true_intensity_gives_uniform_p_values():
    values = []
    for seed in range(60):
        clients, truth = make_events(clients=1, sequences=3, length=20.0, seed=seed)
        waits = [
            np.diff(truth.compensator("client-0", times), prepend=0.0)
            for _, times, *_ in clients["client-0"].sequences()
        ]
        values.append(rescaling_test(waits).p_value)
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_rescaling_needs_events():
    with pytest.raises(DataError):
        rescaling_test([[]])


def test_next_event_forecasts_are_calibrated():
    rng = np.random.default_rng(0)
    model = SigmoidCox().fit(np.sort(rng.uniform(0, 100, 400)), (0.0, 100.0))
    ahead = model.predict_next(20.0, until=60.0)
    waits = 20.0 + rng.exponential(1 / 4, 400)
    transformed = 1 - np.interp(waits, ahead.times, ahead.survival)
    assert stats.kstest(transformed, "uniform").pvalue > 1e-3


def test_pictures_are_drawn(tmp_path):
    clients, truth = make_events(clients=3, sequences=5)
    fitted = FedPP(kernel="time", cells=60, compare=False).fit(clients)
    curves = {name: fitted[name] for name in clients}
    tests = {name: rescaling_test(fitted[name].rescale(clients[name])) for name in clients}
    for number, figure in enumerate((plot_intensities(curves, truth, clients), plot_quantiles(tests))):
        path = tmp_path / f"{number}.png"
        figure.savefig(path)
        assert path.stat().st_size > 5000


def test_a_small_client_is_judged_by_a_band_of_its_own():
    rng = np.random.default_rng(0)
    counts = {"large": 400, "middle": 50, "small": 8}
    tests = {name: rescaling_test([rng.exponential(size=count)]) for name, count in counts.items()}
    (axes,) = plot_quantiles(tests).axes
    bands = [band.get_label() for band in axes.collections]
    assert bands == ["95 % of right models, 8 waits", "95 % of right models, 400 waits"]
    (axes,) = plot_quantiles({"large": tests["large"]}).axes
    assert len(axes.collections) == 1


def test_an_archive_is_read(tmp_path):
    path = tmp_path / "small.npz"
    np.savez(
        path, times=np.array([1.0, 2.0, 5.0, 7.0, 8.0]), offsets=np.array([0, 2, 3, 5]), split=np.array([0, 0, 2]),
        types=np.array([0, 1, 0, 1, 1]),
    )  # fmt: skip
    archive = read_event_archive(path)
    assert len(archive.times) == 2
    assert archive.windows.tolist() == [[1.0, 2.0], [7.0, 8.0]]
    table = archive.select(archive.of_split("test"))
    assert isinstance(table, Events)
    assert table.marks == ("0", "1")
    np.savez(tmp_path / "bad.npz", times=np.zeros(3))
    with pytest.raises(DataError, match="offsets"):
        read_event_archive(tmp_path / "bad.npz")


@pytest.mark.skipif(not DATA.exists(), reason="the shared data are not here")
def test_real_archives_are_read():
    taxi, taobao = (read_event_archive(DATA / f"{name}.npz") for name in ("tritpp_taxi", "taobao"))
    assert (taxi.windows == [0.0, 24.0]).all()
    assert len(taobao.of_split("test")) == 500
    assert taobao.mark_count == 17


@dataclass(frozen=True)
class Drawn:
    """A curve over the times 0 to 10, as a picture of it needs it."""

    rate: Callable[[np.ndarray], np.ndarray]
    shown: tuple[float, float] = (0.0, 10.0)
    period: float | None = None

    def mean(self, times: np.ndarray) -> np.ndarray:
        return self.rate(times)


def test_a_picture_shows_the_whole_time_unless_a_rhythm_would_be_too_fine() -> None:
    def jagged(times: np.ndarray) -> np.ndarray:
        return np.sin(times / 2) + 0.003 * np.sin(200 * times)

    def fast(times: np.ndarray) -> np.ndarray:
        return 1 + np.sin(2 * np.pi * 10 * times)

    assert legible_part(cast(Any, Drawn(jagged))) == (0.0, 10.0)
    assert legible_part(cast(Any, Drawn(np.ones_like))) == (0.0, 10.0)
    assert legible_part(cast(Any, Drawn(fast))) == pytest.approx((9.0, 10.0))
