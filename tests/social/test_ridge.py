from __future__ import annotations

import numpy as np
from scipy import sparse

from cotempo.data import make_posts
from cotempo.social.encoder import hash_ngrams
from cotempo.social.event_sums import EventSums, common_words
from cotempo.social.features import FINE, Features, fold, hash_words, in_order, weights_of
from cotempo.social.ridge import PENALTY, fit_ridge, leave_out

POSTS = make_posts(clients=2, posts=60, events=4, seed=0)[0]["client-0"]
LABELS = np.array(POSTS.event)
NAMES, CODES = np.unique(LABELS, return_inverse=True)
COUNTS = Features.read("shared", POSTS.text, 1024)
WEIGHTS = weights_of(COUNTS.frequencies("shared", 1024), POSTS.rows, 1024)
WEIGHTED = COUNTS.weigh(WEIGHTS)
CENTRED = np.eye(len(NAMES))[CODES] - np.eye(len(NAMES))[CODES].mean(axis=0)


def test_leaving_one_out_is_what_fitting_without_it_gives() -> None:
    prior = EventSums.of(WEIGHTED.words, LABELS, WEIGHTS).coefficients(NAMES.tolist(), np.arange(FINE))
    share, left_out = leave_out(WEIGHTED, CODES, prior)
    assert share == 0.5  # the same posts taught it
    products = (WEIGHTED.words @ WEIGHTED.words.T + WEIGHTED.characters @ WEIGHTED.characters.T).toarray()
    said = share * (WEIGHTED.words @ prior).toarray()
    for row in (0, 17):
        rest = np.delete(np.arange(POSTS.rows), row)
        solved = np.linalg.solve(products[np.ix_(rest, rest)] + PENALTY * np.eye(len(rest)), (CENTRED - said)[rest])
        np.testing.assert_allclose(left_out[row], said[row] + products[row, rest] @ solved, atol=1e-5)


def test_the_classifier_is_the_ridge_regression_in_the_space_of_features() -> None:
    ridge = fit_ridge(tuple(NAMES), WEIGHTED, CODES, sparse.csr_matrix((FINE, len(NAMES))), sharpness=1.0)
    features = sparse.hstack([WEIGHTED.words, WEIGHTED.characters]).tocsc()
    used = np.flatnonzero(np.diff(features.indptr))
    dense = features[:, used].toarray().astype(np.float64)
    exact = np.linalg.solve(dense.T @ dense + PENALTY * np.eye(len(used)), dense.T @ CENTRED)
    np.testing.assert_array_equal(np.concatenate([ridge.used_words, FINE + ridge.used_characters]), used)
    np.testing.assert_allclose(np.vstack([ridge.words, ridge.characters]), exact, atol=1e-4)
    np.testing.assert_allclose(ridge.scores(WEIGHTED), dense @ exact, atol=1e-4)


def test_sums_by_event_add_up_exactly_in_any_order_and_split() -> None:
    whole = EventSums.of(WEIGHTED.words, LABELS, WEIGHTS)
    halves = [EventSums.of(WEIGHTED.words[rows], LABELS[rows], WEIGHTS) for rows in (np.arange(35), np.arange(35, 60))]
    left = whole.without(halves[0])
    np.testing.assert_allclose(left.words, halves[1].words, atol=0.05)  # each entry is rounded
    np.testing.assert_array_equal(left.posts, halves[1].posts)
    np.testing.assert_array_equal(halves[0].words + halves[1].words, halves[1].words + halves[0].words)


def test_who_knows_an_event_can_look_its_words_up() -> None:
    sums = EventSums.of(WEIGHTED.words, LABELS, WEIGHTS)
    used = common_words(np.unique(WEIGHTED.words.indices), WEIGHTS)
    coefficients = sums.coefficients([*NAMES.tolist(), "nobody has seen this"], used).toarray()
    assert not coefficients[:, -1].any()
    guessed = (WEIGHTED.words @ coefficients[:, :-1]).argmax(axis=1)
    assert (guessed == CODES).mean() > 0.9


def test_posts_are_put_in_an_order_of_their_own() -> None:
    mixed = POSTS.select(np.random.default_rng(0).permutation(POSTS.rows))
    assert in_order(mixed).fingerprint() == in_order(POSTS).fingerprint()


def test_folding_is_hashing_into_fewer_buckets() -> None:
    folded, direct = fold(COUNTS.characters, 1024), hash_ngrams(POSTS.text, 1024)
    assert (folded != direct).nnz == 0
    assert hash_words(POSTS.text[:2]).shape == (2, FINE)
