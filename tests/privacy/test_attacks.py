"""Attacks by a server or a peer that only reads: they succeed on plain messages of tables as they are.

They fail on what is seen with the secure sum, and, where the sum alone would not do, on messages of tables whose rows
have weights that nobody else knows, as every site has them by default.
"""

import numpy as np
import pytest
from paper_consortium import RUN, PaperConsortium

import cotempo as ct
from cotempo.auditing.listening import Listener
from cotempo.auditing.reconstruction import (
    final_rounds,
    gram_from_rounds,
    last_rows,
    rows_at_the_ends,
    rows_from_rounds,
)
from cotempo.engines.flower.protocol import Part, Verb
from cotempo.errors import ParameterError
from cotempo.federation import EMPTY, Message, Question
from cotempo.federation.reducers import PlainReducer
from cotempo.federation.wire import question_to_bytes, reply_from_bytes
from cotempo.networks.moments import unpack
from cotempo.privacy.policy import Refused, SitePolicy
from cotempo.privacy.secure_sum.reducer import SecureSum
from cotempo.privacy.secure_sum.shield import SecureSumShield
from cotempo.typing import Floats


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


def watch(method, clients, *, secure: bool) -> Listener:
    listener = Listener(SecureSum() if secure else PlainReducer())
    shields = [SecureSumShield.local(tuple(sorted(clients)))] if secure else []
    method.fit(clients, reducer=listener, shields=shields)
    return listener


def nearest(row: Floats, clients) -> float:
    return min(float(np.abs(table.values - row).max(axis=1).min()) for table in clients.values())


def test_one_message_of_moments_gives_raw_rows_and_their_sum_does_not(clients, weighed):
    method = ct.OneRound(lags=1, compare=False)
    plain = watch(method, clients, secure=False).last("products")
    centre = plain.question.common["centre"]
    for message in plain.singles.values():
        for row in rows_at_the_ends(message["sums"][0], message["products"][0]):
            assert nearest(row + centre, clients) < 1e-9
    for message in watch(method, weighed, secure=False).last("products").singles.values():
        for row in rows_at_the_ends(message["sums"][0], message["products"][0]):
            assert nearest(row + centre, clients) > 1e-2
    for tables in (clients, weighed):
        hidden = watch(method, tables, secure=True).last("products")
        assert not hidden.singles
        for row in rows_at_the_ends(hidden.total["sums"][0], hidden.total["products"][0]):
            assert nearest(row + centre, clients) > 1e-2


def test_fifty_lags_give_a_hundred_rows_and_are_refused(clients):
    """Each two lags next to each other tell the row that one of them has more at either end."""
    method = ct.OneRound(lags=50, compare=False)
    heard = watch(method, clients, secure=False).last("products")
    centre, message = heard.question.common["centre"], heard.singles["site-0"]
    products = unpack(message["products"][0], 51 * 4)
    found = set()
    for lag in range(50):
        cut = slice(4 * lag, 4 * lag + 8)
        for row in rows_at_the_ends(message["sums"][0][cut], products[cut, cut][np.triu_indices(8)]):
            distance = np.abs(clients["site-0"].values - row - centre).max(axis=1)
            assert distance.min() < 1e-6
            found.add(distance.argmin())
    assert len(found) == 100
    with pytest.raises(Refused, match="lags of OneRound"):
        SitePolicy().require_parameters(method, {})


def ends_from_rounds(method, clients) -> float:
    """Return how near a client's rows come that follow from the Gram of its rounds and the sums it sent before."""
    return min(nearest(row, clients) for row in rows_from_rounds(watch(method, clients, secure=False)))


def test_first_rounds_of_fdbnl_give_a_clients_gram_and_their_sums_do_not(clients, weighed):
    method = ct.FDBNL(lags=1, lambda_within=0.1, lambda_across=0.1, compare=False, rounds=6, refit=False)
    reader = watch(method, clients, secure=False)
    common = reader.last("solve").question.common
    mean, scale = common["mean"], common["scale"]
    truth = {}
    for name, table in clients.items():
        rows = (np.hstack([table.values[1:], table.values[:-1]]) - mean) / scale
        truth[name] = rows.T @ rows / len(rows)
        found = gram_from_rounds(final_rounds(reader, name))
        assert np.abs(found - truth[name]).max() < 1e-6
    assert ends_from_rounds(method, clients) < 1e-3
    assert ends_from_rounds(method, weighed) > 1e-2
    hidden = watch(method, clients, secure=True)
    from_sums = gram_from_rounds(final_rounds(hidden, None))
    assert min(np.abs(from_sums - gram).max() for gram in truth.values()) > 0.01


def test_a_peer_who_subtracts_gives_rows_back_and_not_of_weighed_ones(clients, weighed):
    """Clients are told pooled sums (`personal=True`). Of two, each knows the other's; so two are refused besides."""
    found = []
    for tables in (clients, weighed):
        two = dict(list(tables.items())[:2])
        reader = watch(ct.OneRound(lags=1, compare=False, personal=True), two, secure=False)
        told = reader.last("borrow").question.common
        own, other = reader.last("products").singles.items()
        left = [told[name] - own[1][name][0] for name in ("sums", "products")]
        rows = [row + told["centre"] for row in rows_at_the_ends(*left)]
        found.append(min(nearest(row, {other[0]: two[other[0]]}) for row in rows))
    assert found[0] < 1e-9
    assert found[1] > 1e-2
    with pytest.raises(ParameterError, match="at least 3"):
        ct.OneRound().fit(two, privacy=ct.Privacy(secure_sum=True))


def test_window_moments_give_the_last_row_and_not_of_weighed_ones(clients, weighed):
    found = []
    for tables in (clients, weighed):
        heard = watch(ct.FedMoments(window=4), tables, secure=False).last("moments")
        units = heard.question.common
        rows = [
            row * units["step"] + units["centre"]
            for message in heard.singles.values()
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
    common = Message(
        {"variables": '["x0", "x1", "x2", "x3"]', "centre": np.zeros(4), "gaps": False, "levels": "common"}
    )
    question = question_to_bytes(Question(RUN, 1, 1, "products", "ash", 0, 0, EMPTY, EMPTY))
    said = service.handle(Verb.ASK, {Part.QUESTION: question, Part.COMMON: common.to_bytes()})
    message = reply_from_bytes(said[Part.REPLY]).message
    near = [nearest(row, clients) for row in rows_at_the_ends(message["sums"][0], message["products"][0])]
    assert min(near) > 1e-2 if weigh_rows else max(near) < 1e-9
