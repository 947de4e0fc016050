"""Attacks by a server that only reads: they succeed on plain messages, and fail on what it sees with the secure sum."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import cotempo as ct
from cotempo.errors import ParameterError
from cotempo.federation import Answers, Expect, Question
from cotempo.federation.reducers import PlainReducer
from cotempo.networks.moments import unpack
from cotempo.privacy.secure_sum.reducer import SecureSum
from cotempo.privacy.secure_sum.shield import SecureSumShield
from cotempo.typing import Floats


class Reader:
    """A reducer that also writes down what the server sees of each step: questions, single messages and the total."""

    def __init__(self, reducer):
        self.reducer, self.singles, self.totals, self.questions = reducer, {}, {}, {}

    def gather(self, exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        def read(asked, expected):
            for reply in exchange(asked, expected):
                if reply.message is not None:
                    step = self.singles.setdefault((asked[0].step, asked[0].phase), {})
                    step[reply.client] = reply.message
                yield reply

        answers = self.reducer.gather(read, questions, expect)
        if questions:
            key = questions[0].step, questions[0].phase
            self.questions[key] = questions[0]
            self.totals[key] = answers.total
        return answers


@pytest.fixture(scope="module")
def clients():
    """Clients with series of their own; those of one call continue each other, so that their ends cancel."""
    return {f"site-{seed}": ct.make_networks(4, 1, 100, seed=seed)[0]["client-0"] for seed in range(3)}


def watch(method, clients, *, secure: bool) -> Reader:
    reader = Reader(SecureSum() if secure else PlainReducer())
    shields = [SecureSumShield.local(tuple(sorted(clients)))] if secure else []
    method.fit(clients, reducer=reader, shields=shields)
    return reader


def rows_at_the_ends(sums: Floats, products: Floats) -> tuple[Floats, Floats]:
    """Return the first and the last row behind moments of one lag, exact if they are one client's.

    The blocks of the Gram at lags 0 and 1 differ by a a' - b b' with a the last and b the first row, and the sums by
    a - b, which together is linear in b.
    """
    count = len(sums) // 2
    gram, step = unpack(products, 2 * count), sums[:count] - sums[count:]
    difference = gram[:count, :count] - gram[count:, count:] - np.outer(step, step)
    along = step @ difference @ step / (2 * step @ step)
    first = (difference @ step - step * along) / (step @ step)
    return first, first + step


def nearest(row: Floats, clients) -> float:
    return min(float(np.abs(table.values - row).max(axis=1).min()) for table in clients.values())


def test_one_message_of_moments_gives_raw_rows_and_their_sum_does_not(clients):
    method = ct.OneRound(lags=1, compare=False)
    plain = watch(method, clients, secure=False)
    key = next(key for key in plain.singles if key[1] == "products")
    centre = plain.questions[key].common["centre"]
    for message in plain.singles[key].values():
        for row in rows_at_the_ends(message["sums"][0], message["products"][0]):
            assert nearest(row + centre, clients) < 1e-9
    hidden = watch(method, clients, secure=True)
    total = hidden.totals[key]
    assert not any("products" in message for message in hidden.singles[key].values())
    for row in rows_at_the_ends(total["sums"][0], total["products"][0]):
        assert nearest(row + centre, clients) > 1e-3


def gram_from_rounds(rounds: Iterator[tuple[Floats, Floats, float]]) -> Floats:
    """Return the Gram a client stepped with, from its targets in FDBNL's first rounds.

    Each round the client solves (G + rho) Z_k = G E - dual + rho Z with E = [I; 0]. The server knows Z and rho, and
    learns Z_k and the dual one after the other from the targets Z_k + dual / rho: G (Z_k - E) = rho (Z - Z_k) - dual.
    """
    left, right = [], []
    dual = local = before = None
    for target, shared, penalty in rounds:
        dual = np.zeros_like(target) if local is None else dual + before * (local - shared)
        local, before = target - dual / penalty, penalty
        left.append(local - np.eye(*local.shape))
        right.append(penalty * (shared - local) - dual)
    return np.linalg.lstsq(np.hstack(left).T, np.hstack(right).T, rcond=None)[0].T


def observed(reader: Reader, client: str | None) -> Iterator[tuple[Floats, Floats, float]]:
    """Yield target, Z and rho of the last stage's first rounds, of a client or of the mean over clients."""
    for key, question in reader.questions.items():
        if key[1] == "solve" and question.common["stage"] == "final" and question.common["shared"].shape[0] == 1:
            total = reader.totals[key]
            target = total["target"] / total.weight if client is None else reader.singles[key][client]["target"]
            yield target[0], question.common["shared"][0], float(question.common["penalties"][0, 2])


def test_first_rounds_of_fdbnl_give_a_clients_gram_and_their_sums_do_not(clients):
    method = ct.FDBNL(lags=1, lambda_within=0.1, lambda_across=0.1, compare=False, rounds=6, refit=False)
    reader = watch(method, clients, secure=False)
    question = next(q for key, q in reader.questions.items() if key[1] == "solve" and q.common["stage"] == "final")
    mean, scale = question.common["mean"], question.common["scale"]
    truth = {}
    for name, table in clients.items():
        rows = (np.hstack([table.values[1:], table.values[:-1]]) - mean) / scale
        truth[name] = rows.T @ rows / len(rows)
        found = gram_from_rounds(observed(reader, name))
        assert np.abs(found - truth[name]).max() < 1e-6
    hidden = watch(method, clients, secure=True)
    from_sums = gram_from_rounds(observed(hidden, None))
    assert min(np.abs(from_sums - gram).max() for gram in truth.values()) > 0.01


def test_with_two_clients_a_peer_could_subtract_so_the_secure_sum_refuses(clients):
    two = dict(list(clients.items())[:2])
    with pytest.raises(ParameterError, match="at least 3"):
        ct.OneRound().fit(two, privacy=ct.Privacy(secure_sum=True))
