"""Attacks by a server or a peer that only reads: they succeed on plain messages of tables as they are.

They fail on what is seen with the secure sum, and, where the sum alone would not do, on messages of tables whose rows
have weights that nobody else knows, as every site has them by default.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from paper_consortium import RUN, PaperConsortium

import cotempo as ct
from cotempo.engines.flower.protocol import Part, Verb
from cotempo.errors import ParameterError
from cotempo.federation import EMPTY, Answers, Expect, Message, Question
from cotempo.federation.reducers import PlainReducer
from cotempo.federation.wire import question_to_bytes, reply_from_bytes
from cotempo.networks.moments import pack, unpack
from cotempo.privacy.secure_sum.reducer import SecureSum
from cotempo.privacy.secure_sum.shield import SecureSumShield
from cotempo.series.moments.moments import WindowMoments
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


@pytest.fixture(scope="module")
def weighed(clients):
    """The same tables as sites use them between organisations."""
    return {
        name: table.weigh_rows(np.random.default_rng(number)) for number, (name, table) in enumerate(clients.items())
    }


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


def test_one_message_of_moments_gives_raw_rows_and_their_sum_does_not(clients, weighed):
    method = ct.OneRound(lags=1, compare=False)
    plain = watch(method, clients, secure=False)
    key = next(key for key in plain.singles if key[1] == "products")
    centre = plain.questions[key].common["centre"]
    for message in plain.singles[key].values():
        for row in rows_at_the_ends(message["sums"][0], message["products"][0]):
            assert nearest(row + centre, clients) < 1e-9
    for message in watch(method, weighed, secure=False).singles[key].values():
        for row in rows_at_the_ends(message["sums"][0], message["products"][0]):
            assert nearest(row + centre, clients) > 1e-2
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


def ends_from_rounds(method, clients) -> float:
    """Return how near a client's rows come that follow from the Gram of its rounds and the sums it sent before."""
    reader = watch(method, clients, secure=False)
    question = next(q for key, q in reader.questions.items() if key[1] == "solve" and q.common["stage"] == "final")
    mean, scale = question.common["mean"], question.common["scale"]
    centre = next(said for key, said in reader.singles.items() if key[1] == "centre")
    found = []
    for name, said in centre.items():
        rows, sums = said["rows"][1], said["sums"][1]
        gram = gram_from_rounds(observed(reader, name)) * np.outer(scale, scale)
        products = rows * (gram - np.outer(mean, mean)) + np.outer(mean, sums) + np.outer(sums, mean)
        found += [nearest(row, clients) for row in rows_at_the_ends(sums, pack(products))]
    return min(found)


def test_first_rounds_of_fdbnl_give_a_clients_gram_and_their_sums_do_not(clients, weighed):
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
    assert ends_from_rounds(method, clients) < 1e-3
    assert ends_from_rounds(method, weighed) > 1e-2
    hidden = watch(method, clients, secure=True)
    from_sums = gram_from_rounds(observed(hidden, None))
    assert min(np.abs(from_sums - gram).max() for gram in truth.values()) > 0.01


def test_a_peer_who_subtracts_gives_rows_back_and_not_of_weighed_ones(clients, weighed):
    """Clients are told pooled sums (`personal=True`). Of two, each knows the other's; so two are refused besides."""
    found = []
    for tables in (clients, weighed):
        two = dict(list(tables.items())[:2])
        reader = watch(ct.OneRound(lags=1, compare=False, personal=True), two, secure=False)
        told = next(question.common for key, question in reader.questions.items() if key[1] == "borrow")
        own, other = next(said for key, said in reader.singles.items() if key[1] == "products").items()
        left = [told[name] - own[1][name][0] for name in ("sums", "products")]
        rows = [row + told["centre"] for row in rows_at_the_ends(*left)]
        found.append(min(nearest(row, {other[0]: two[other[0]]}) for row in rows))
    assert found[0] < 1e-9
    assert found[1] > 1e-2
    with pytest.raises(ParameterError, match="at least 3"):
        ct.OneRound().fit(two, privacy=ct.Privacy(secure_sum=True))


def last_rows(products: Floats, counts: Floats) -> Floats:
    """Return the last row behind window moments of one piece, once with each sign.

    Sums of products of steps, and of levels and steps, differ from those a row farther back by those of the last row.
    """
    table = WindowMoments.unpack(products, counts).products
    steps, levels = table[0, :, 0] - table[2, :, 2], table[1, :, 0] + table[0, :, 0] - table[1, :, 2]
    values, vectors = np.linalg.eigh((steps + steps.T) / 2)
    row = levels @ vectors[:, -1] / np.sqrt(max(values[-1], 1e-300))
    return np.array([row, -row])


def test_window_moments_give_the_last_row_and_not_of_weighed_ones(clients, weighed):
    found = []
    for tables in (clients, weighed):
        reader = watch(ct.FedMoments(window=4), tables, secure=False)
        key = next(key for key in reader.singles if key[1] == "moments")
        units = reader.questions[key].common
        rows = [
            row * units["step"] + units["centre"]
            for message in reader.singles[key].values()
            for row in last_rows(message["products"][0], message["counts"][0])
        ]
        found.append(min(nearest(row, clients) for row in rows))
    assert found[0] < 1e-6
    assert found[1] > 1e-2


@pytest.mark.parametrize("weigh_rows", [False, True])
def test_a_site_weighs_its_rows_unless_told_otherwise(tmp_path, clients, weigh_rows):
    consortium = PaperConsortium(tmp_path, ("ash", "birch", "cedar"))
    policy = {"secure_sum": False} | ({} if weigh_rows else {"weigh_rows": False})
    service = consortium.service("ash", clients["site-0"], methods=("OneRound",), privacy=policy)
    parts = consortium.invite(method="OneRound", parameters={"compare": False})
    assert Part.SCHEMA in service.handle(Verb.JOIN, parts)
    service.handle(Verb.AGREE, {Part.CONSENTS: consortium.sign(parts[Part.CONTRACT])})
    common = Message({"variables": '["x0", "x1", "x2", "x3"]', "centre": np.zeros(4), "gaps": False})
    question = question_to_bytes(Question(RUN, 1, 1, "products", "ash", 0, 0, EMPTY, EMPTY))
    said = service.handle(Verb.ASK, {Part.QUESTION: question, Part.COMMON: common.to_bytes()})
    message = reply_from_bytes(said[Part.REPLY]).message
    near = [nearest(row, clients) for row in rows_at_the_ends(message["sums"][0], message["products"][0])]
    assert min(near) > 1e-2 if weigh_rows else max(near) < 1e-9
