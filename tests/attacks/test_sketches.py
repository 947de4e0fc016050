"""Sketches of posts: one of noise is found, and one of few posts is not suspected."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cotempo as ct
from cotempo.federation import EMPTY, Expect, Message, Question
from cotempo.robust.screening import find_suspects
from cotempo.social.encoders.characters import inverse_frequencies
from cotempo.social.encoders.shared import SharedEncoder, answer_encoder

LIAR, SMALL = "client-3", "client-0"


def sketches(seed: int, few: int) -> tuple[dict[str, Message], Expect]:
    """Return what eight clients of 80 posts send, one of which has only a few, and what is expected."""
    tables = dict(ct.make_posts(clients=8, posts=80, events=10, seed=seed)[0])
    method = ct.social.DAMe(dimension=32, buckets=1024)
    counts = {name: method.prepare(table).counts for name, table in tables.items()}
    counts[SMALL] = counts[SMALL][:few]

    def ask(phase: str, common: Message = EMPTY) -> dict[str, Message]:
        question = Question("run", 1, 1, phase, "any", 0, 0, common, EMPTY)
        return {name: answer_encoder(question, own, 32) for name, own in counts.items()}

    told = ask("frequencies").values()
    documents = sum(one["documents"] for one in told)
    weights = inverse_frequencies(sum(one["frequency"] for one in told), documents)
    shared = replace(SharedEncoder.open("shared", seed, 1024, 32), weights=weights, documents=documents)
    common = Message({"weights": weights, "seed": seed, "columns": shared.columns})
    return ask("sketch", common), shared.expects("sketch")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_sketch_of_noise_is_left_out(seed: int) -> None:
    told, expect = sketches(seed, few=80)
    honest = told[LIAR]["sketch"]
    noise = np.random.default_rng(seed).standard_normal(honest.shape)
    lied = (honest + 3 * np.sqrt(np.mean(honest**2)) * noise).astype(np.float32)
    assert set(find_suspects({**told, LIAR: Message({**told[LIAR], "sketch": lied})}, expect)) == {LIAR}


@pytest.mark.parametrize("seed", [6, 7])
def test_a_sketch_of_a_tenth_of_the_posts_is_not_suspected(seed: int) -> None:
    assert not find_suspects(*sketches(seed, few=8))
