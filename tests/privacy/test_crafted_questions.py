"""Attacks by a server that asks what it likes: they succeed on a site without rules, and fail on one with defaults."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.errors import MessageError
from cotempo.events import base_measure
from cotempo.federation import EMPTY, Message, Question, Rng
from cotempo.networks.moments import unbiased
from cotempo.privacy.policy import Refused, SitePolicy
from cotempo.typing import Floats

LAGS, VARIABLES = 5, 3
SIDE = (LAGS + 1) * VARIABLES


def make_question(phase: str, common: Message) -> Question:
    return Question("run", 1, 1, phase, "client-0", 0, 0, common, EMPTY)


def test_a_half_life_of_nothing_gives_the_last_row_and_is_refused():
    table = ct.make_networks(3, 1, 100, seed=0)[0]["client-0"]
    method = ct.OneRound(half_life=1e-3, compare=False)
    common = Message({"variables": '["x0", "x1", "x2"]', "centre": np.zeros(3), "gaps": False, "levels": "common"})
    prepared = method.prepare(table)
    message, _ = method.answer(make_question("products", common), prepared, method.begin(prepared, Rng(0)), Rng(0))
    np.testing.assert_allclose(message["sums"][0, :3] / message["counts"][0], table.values[-1], rtol=1e-12)
    with pytest.raises(Refused, match="half_life"):
        SitePolicy().require_parameters(method, {})


def read_times(answer: Callable[[Message], Message], summary: Floats, cells: int) -> Floats:
    """Return the times of a client's events: windows of the asker's choice, each with as many cells as all of time."""
    found, edges = [], np.linspace(summary[2], summary[3], 61)
    for start, end in pairwise(edges):
        common = {"summary": np.array([*summary[:2], start, end, *summary[4:]]), "base": "poisson"}
        said = answer(Message({**common, "parameters": np.zeros(0), "curve": np.ones(cells)}))
        inside = np.flatnonzero(said["events"].sum(axis=0)[1:-1]) + 1.5  # what lies outside is in the first and last
        found.append(start + inside * (end - start) / cells)
    return np.concatenate(found)


def test_windows_of_the_servers_choice_give_event_times_and_are_refused(monkeypatch):
    clients, _ = ct.make_events(clients=1, sequences=1, length=200.0, seed=0)
    method = ct.FedPP(kernel="time", compare=False)
    summary = method.fit(clients, progress=False).state.design.summary
    prepared = method.prepare(clients["client-0"])
    memory, part = method.begin(prepared, Rng(0)), prepared.hold_out().part(held=False).whole()
    known = part.time[part.count > 0]
    gap = (known[-1] - known[0]) / len(known)

    def answer(common: Message) -> Message:
        return method.answer(make_question("count", common), prepared, memory, Rng(0))[0]

    with pytest.raises(MessageError, match="at least half as long"):
        read_times(answer, summary, method.cells)
    monkeypatch.setattr(base_measure, "require_wide", lambda design, record: None)
    times = read_times(answer, summary, method.cells)
    near = [np.abs(times - time).min() for time in known]
    assert len(known) > 50
    assert np.mean(np.array(near) < gap / 100) > 0.95


class Credulous(ct.FDBNL):
    """FDBNL as it was: whatever the number of candidates, it answers."""

    def _refuse_many(self, shared: Floats) -> None:
        pass


def ask_about(vectors: Floats, compare: Callable[[Message], Message]) -> tuple[Floats, Floats]:
    """Return sums over the held-out rows z of (u'z)^2, and of products of each two of these, by one crafted question.

    A vector u, with 1 for the first variable, is a candidate whose network explains this variable alone, by all others
    with the weights -u. All other variables have so much noise that they do not matter.
    """
    count, noise = len(vectors), 1e9
    shared = np.zeros((count, SIDE, VARIABLES))
    shared[:, 1:, 0] = -vectors[:, 1:]
    squares = np.tile([1.0, *[noise] * (VARIABLES - 1)], (count, 1))
    sent = {"shared": shared, "variance": squares, "rows": 1e9, "mean": np.zeros(SIDE), "scale": np.ones(SIDE)}
    said = compare(Message(sent))
    method = Credulous(lags=LAGS)
    variance = np.array([unbiased(s, 1e9, method._network(z)) for z, s in zip(shared, squares, strict=True)])
    base = -0.5 * np.log(2 * np.pi * variance).sum(axis=1)  # density = base - (u'z)^2 / (2 variance)
    scale = 2 * variance[:, 0]
    first = scale * (said["rows"] * base - said["densities"])
    mixed = np.outer(base, said["densities"])
    second = said["rows"] * np.outer(base, base) - mixed - mixed.T + said["products"]
    return first, np.outer(scale, scale) * second


def read_rows(compare: Callable[[Message], Message]) -> Floats:
    """Return rows up to their signs, from fourth moments, if there are at most as many as columns.

    Squares of x_0, x_0 + z_i, x_0 - z_i and x_0 + z_i + z_j give all products of two columns, and their products the
    fourth moments sum z z' (a'z)^2 = Z' D_a Z. Two of these are diagonal in the same basis, which is that of the rows.
    """
    eye, rest = np.eye(SIDE), range(1, SIDE)
    pairs = [(i, j) for i in rest for j in rest if i < j]
    vectors = [eye[0], *(eye[0] + eye[i] for i in rest), *(eye[0] - eye[i] for i in rest)]
    vectors += [eye[0] + eye[i] + eye[j] for i, j in pairs]
    _, moments = ask_about(np.array(vectors), compare)
    picks = {}  # by two columns, how their product is made of the squares
    unit = np.eye(len(vectors))
    picks[0, 0] = unit[0]
    for i in rest:
        picks[0, i] = (unit[i] - unit[SIDE - 1 + i]) / 4
        picks[i, i] = (unit[i] + unit[SIDE - 1 + i]) / 2 - unit[0]
    for place, (i, j) in enumerate(pairs):
        singles = picks[0, 0] + picks[i, i] + picks[j, j] + 2 * picks[0, i] + 2 * picks[0, j]
        picks[i, j] = (unit[2 * SIDE - 1 + place] - singles) / 2
    table = np.array([[picks[min(i, j), max(i, j)] for j in range(SIDE)] for i in range(SIDE)])
    fourth = np.einsum("ijc,cd,kld->ijkl", table, moments, table, optimize=True)
    draw = np.random.default_rng(0).normal(size=(2, SIDE))
    one, other = (np.einsum("ijkl,k,l->ij", fourth, a, a) for a in draw)
    values, basis = np.linalg.eigh(one)
    kept = basis[:, values > 1e-9 * values[-1]]
    inner = np.linalg.solve(kept.T @ one @ kept, kept.T @ other @ kept)
    directions = np.linalg.pinv(np.real(kept @ np.linalg.eig(inner)[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    quartics = np.einsum("ri,rj,rk,rl->ijklr", *[directions] * 4, optimize=True).reshape(SIDE**4, -1)
    sizes = np.linalg.lstsq(quartics, fourth.ravel(), rcond=None)[0]
    return np.asarray(directions * np.maximum(sizes, 0.0)[:, None] ** 0.25)


@pytest.fixture(scope="module")
def table() -> ct.Series:
    return ct.make_networks(VARIABLES, 1, 90, seed=0)[0]["client-0"]


def comparing(method: Any, table: ct.Series) -> Callable[[Message], Message]:
    prepared = method.prepare(table)
    memory = method.begin(prepared, Rng(0))
    return lambda common: method.answer(make_question("compare", common), prepared, memory, Rng(0))[0]


def test_one_crafted_comparison_gives_the_held_out_rows_and_is_refused(table):
    method = Credulous(lags=LAGS, compare=False)
    judged = method.prepare(table).judged
    found = read_rows(comparing(method, table))
    errors = [min(np.abs(s * found - row).max(axis=1).min() for s in (1, -1)) for row in judged]
    assert max(errors) < 1e-3
    with pytest.raises(MessageError, match="at most 5 candidates"):
        read_rows(comparing(ct.FDBNL(lags=LAGS), table))
    with pytest.raises(MessageError, match="at most 10 candidates"):
        read_rows(comparing(ct.PFDBNL(lags=LAGS), table))
