"""Membership attacks on windows that FedTDD releases: they succeed through the gate as it was, and not now.

The local imputer is taken to remember: what it draws are training windows, changed a little, or half of them, or all
but one feature. A member is told by its distance to what was released.
"""

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import make_series
from cotempo.federation import Message, Question, Rng
from cotempo.federation.method import Roster
from cotempo.series import fedtdd
from cotempo.series.fedtdd import receive, set_apart, share
from cotempo.series.release import MEASURES, Release, membership, nearest_distance
from cotempo.series.windows import SeriesRows
from cotempo.typing import Floats

WINDOW, COMMON = 8, ("x0", "x1", "x2")


def old_gate(synthetic: Floats, trained: Floats, held: Floats) -> Release:
    """Withhold what is nearer to a real window as a whole than 99 % of unseen ones are, in whatever units."""
    near = nearest_distance(synthetic, np.concatenate([trained, held]))
    return Release(near > np.quantile(nearest_distance(held, trained), 0.01), 0.5)


class Owner:
    """A client whose imputer remembers; the coordinator sends the scale of the first feature stretched."""

    def __init__(self, stretch: float):
        made, _ = make_series(clients=2, length=1200, features=3, seed=0)
        small = {"width": 4, "heads": 1, "encoders": 1, "decoders": 1}
        self.method = ct.FedTDD(preset="paper", gate=True, common=COMMON, window=WINDOW, **small)
        table, public = made["client-0"], made["client-1"]
        self.others, rng = SeriesRows.of(public).windows(WINDOW), Rng(0)
        self.data = self.method.prepare(table)
        lesson = self.method._lesson(self.method.open(Roster({"client-0": table.schema}), public, rng))
        low, high = lesson["low"].copy(), lesson["high"].copy()
        middle, reach = (low[0] + high[0]) / 2, (high[0] - low[0]) / 2 / stretch
        low[0], high[0] = middle - reach, middle + reach
        common = Message({"share": 0.2, "steps": 0, "all_windows": False})
        own = Message({**lesson, "low": low, "high": high})
        self.question = Question("run", 1, 1, "share", "client-0", 0, 0, common, own)
        memory = receive(self.method, self.question, self.data, self.method.begin(self.data, rng))
        self.memory = fedtdd.replace(memory, filled=self.data.rows.values)
        self.trained, self.held = (part.windows(WINDOW) for part in set_apart(self.method, self.data.rows))

    def release(self, monkeypatch, remembered) -> Floats:
        """Return what leaves, in the client's own units, if its imputer draws what it remembers."""
        stream = np.random.default_rng(1)

        def draw(method, weights, features, count, rng):
            drawn = self.trained[stream.integers(len(self.trained) // 2, size=count)]
            others = self.held[stream.integers(len(self.held), size=count)] + 0.3 * stream.normal(size=drawn.shape)
            return self.memory.generator_scale.apply(remembered(drawn.copy(), others))

        monkeypatch.setattr("cotempo.series.nn.samplers.draw_windows", draw)
        message, _ = share(self.method, self.question, self.data, self.memory, Rng(1))
        public = self.memory.taught.scale
        return self.data.scale.take(np.arange(3)).apply(public.undo(message["windows"]))

    def advantage(self, released: Floats) -> float:
        """Return the best attacker's AUC: windows remembered against those never seen, by all or by two features."""
        scale = self.data.scale
        member, other = (scale.apply(part) for part in (self.trained[: len(self.trained) // 2], self.held))
        return max(
            membership(released[..., some], member[..., some], other[..., some], measure)
            for measure in MEASURES
            for some in (slice(None), slice(1, None))
        )


def copies(drawn: Floats, others: Floats) -> Floats:
    return drawn + 1e-3


def half_copies(drawn: Floats, others: Floats) -> Floats:
    return np.concatenate([drawn[:, : WINDOW // 2], others[:, WINDOW // 2 :]], axis=1)


def copies_but_for_one_feature(drawn: Floats, others: Floats) -> Floats:
    return np.concatenate([others[..., :1], drawn[..., 1:]], axis=2)


@pytest.mark.parametrize(
    ("remembered", "stretch"), [(copies, 1.0), (half_copies, 1.0), (copies_but_for_one_feature, 30.0)]
)
def test_windows_that_leave_do_not_tell_who_was_trained_on(monkeypatch, remembered, stretch):
    owner = Owner(stretch)
    assert not len(owner.release(monkeypatch, remembered))
    scale = owner.memory.taught.scale
    own = owner.data.scale.take(np.arange(3))

    def in_the_coordinators_units(*parts: Floats) -> Release:
        return old_gate(*(scale.apply(own.undo(part)) for part in parts))

    if remembered is copies:
        in_the_coordinators_units = lambda *parts: Release(np.ones(len(parts[0]), bool), 0.5)  # noqa: E731
    monkeypatch.setattr(fedtdd, "release", in_the_coordinators_units)
    before = owner.release(monkeypatch, remembered)
    assert len(before) > 200
    assert owner.advantage(before) > 0.75


def test_windows_of_nobody_leave(monkeypatch):
    owner = Owner(1.0)
    fresh = owner.others[np.random.default_rng(2).permutation(len(owner.others))]
    assert len(owner.release(monkeypatch, lambda drawn, others: fresh[: len(drawn)])) > 100


def test_nothing_leaves_by_default():
    assert not ct.FedTDD(common=COMMON).releases
