"""Posts read back from sums: from a wide sketch nearly all of them, from what crosses by default none."""

import numpy as np
import pytest

import cotempo as ct
from cotempo.auditing.reconstruction import read_counts, readable_posts
from cotempo.errors import MessageError
from cotempo.federation import EMPTY, Answers, Message, Question
from cotempo.social.encoders.characters import hash_ngrams, inverse_frequencies, sketch, weigh
from cotempo.social.encoders.shared import SharedEncoder, answer_encoder
from cotempo.typing import Floats

BUCKETS, COLUMNS = 2**15, 300


def make_texts(clients: int, posts: int) -> list[list[str]]:
    """Return posts that have a word of their own each, a link or a name, as real ones do."""
    tables, _ = ct.make_posts(clients=clients, posts=posts, events=8, seed=0)
    letters = np.random.default_rng(0).choice(list("abcdefghijklmnopqrstuvwxyz"), (clients, posts, 8))
    return [
        [f"{text} {''.join(word)}" for text, word in zip(table.text, words, strict=True)]
        for table, words in zip(tables.values(), letters, strict=True)
    ]


def make_counts(clients: int, posts: int):
    return [hash_ngrams(texts, BUCKETS) for texts in make_texts(clients, posts)]


def read_posts(total: Floats, frequency: Floats) -> list[set[int]]:
    """Return the sets of n-grams that a server finds in a sketch of co-occurrences.

    A sketch is Y = X'X Omega with posts as the sparse rows of X. An n-gram that occurs in one post only, as
    frequencies tell, has the row x (post Omega): rows of such n-grams that point the same way show a post's sketch. If
    there are fewer posts than columns, all other rows are then solved for which posts they are of.
    """
    total = total.astype(np.float64)
    length = np.linalg.norm(total, axis=1)
    single, used = np.flatnonzero(frequency == 1), np.flatnonzero(frequency > 0)
    left = total[single] / np.maximum(length[single, None], 1e-30)
    posts = []
    while len(left):
        posts.append(left[0])
        left = left[np.abs(left @ left[0]) < 1 - 1e-5]
    if not posts or len(posts) > total.shape[1]:
        posts = posts[: total.shape[1]]  # more unknowns than equations: try with some
    shares = np.linalg.lstsq(np.array(posts).reshape(-1, total.shape[1]).T, total[used].T, rcond=None)[0]
    large = np.abs(shares) > 0.05 * np.abs(shares).max(axis=1, keepdims=True)
    return [set(used[row].tolist()) for row in large]


def readable(found: list[set[int]], counts) -> float:
    """Return the share of posts that are found."""
    posts = [set(rows.indices.tolist()) for part in counts for rows in part]
    return readable_posts(found, posts) / len(posts)


def attack(counts, columns: int) -> float:
    """Return the share of posts that are read from the sum of clients' sketches and frequencies."""
    frequency = sum(np.bincount(part.indices, minlength=BUCKETS) for part in counts)
    weights = inverse_frequencies(frequency, sum(part.shape[0] for part in counts))
    return readable(read_posts(sum(sketch(weigh(part, weights), 0, columns) for part in counts), frequency), counts)


@pytest.mark.parametrize(("clients", "posts"), [(1, 20), (1, 60), (3, 60)])
def test_a_wide_sketch_gives_posts_back(clients, posts):
    assert attack(make_counts(clients, posts), COLUMNS) > 0.99


@pytest.mark.parametrize(("clients", "posts"), [(3, 20), (3, 60), (8, 30)])
def test_the_sketch_that_clients_sum_gives_no_posts_back(clients, posts):
    """Four posts a column: there are more unknowns than equations."""
    counts = make_counts(clients, posts)
    columns = SharedEncoder(0, BUCKETS, 200, documents=float(clients * posts)).columns
    assert attack(counts, columns) == 0
    common = Message({"weights": np.ones(BUCKETS, np.float32), "seed": 0, "columns": 5000})
    question = Question("run", 1, 1, "sketch", "a", 0, 0, common, EMPTY)
    with pytest.raises(MessageError, match="at most 300 columns"):
        answer_encoder(question, counts[0], 200)


def test_the_encoder_is_made_of_as_few_columns_as_it_says():
    counts = make_counts(3, 20)
    encoder = SharedEncoder(0, BUCKETS, 200)
    for phase in ("frequencies", "sketch"):
        asked = encoder.ask(["a", "b", "c"])
        sent = [
            answer_encoder(Question("run", 1, 1, phase, "a", 0, 0, asked.common, EMPTY), part, 200) for part in counts
        ]
        total = Message({name: sum(one[name] for one in sent) for name in sent[0]}, weight=3.0)
        encoder = encoder.absorb(Answers(("a", "b", "c"), total))
    assert sent[0]["sketch"].shape == (BUCKETS, 15)
    assert encoder.is_ready
    assert np.count_nonzero(np.linalg.norm(encoder.basis, axis=0)) <= 15


def test_the_detectors_sums_give_no_posts_back():
    """Counts of n-grams and of words by event: the server can only take all that occur, or those that occur once."""
    method = ct.EventDetector()
    counts, found = [], []
    for texts in make_texts(3, 60):
        table = ct.Posts(time=np.arange(60.0), text=texts, event=[f"event {number % 8}" for number in range(60)])
        posts, features = method.prepare(table)
        question = Question("run", 1, 1, "sums", "a", 0, 0, EMPTY, EMPTY)
        sums, _ = method.answer(question, (posts, features), None, ct.federation.Rng(0))
        counts.append(hash_ngrams(posts.text, method.buckets))
        found += read_counts(sums["frequency"])
    assert readable(found, counts) == 0
