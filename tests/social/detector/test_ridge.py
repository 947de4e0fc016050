from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from cotempo.data import make_posts
from cotempo.social.detector.event_sums import FEWEST, EventSums
from cotempo.social.detector.features import HASH_BUCKETS, Features, fold, hash_words, in_order
from cotempo.social.detector.ridge import ODDS, PENALTY, SHARE, WordPrior, fit_ridge, leave_out, log_odds
from cotempo.social.encoders.characters import hash_ngrams

POSTS = make_posts(clients=2, posts=60, events=4, seed=0)[0]["client-0"]
LABELS = np.array(POSTS.event)
NAMES, CODES = np.unique(LABELS, return_inverse=True)
COUNTS = Features.read("shared", POSTS.text, 1024)
WEIGHTED = COUNTS.weigh(COUNTS.weights)
CENTRED = np.eye(len(NAMES))[CODES] - np.eye(len(NAMES))[CODES].mean(axis=0)
USED = np.unique(COUNTS.words.indices)
NOTHING = WordPrior(np.zeros(0, np.intp), np.zeros((0, len(NAMES))))
NOBODY = WEIGHTED.select(np.zeros(0, np.intp))


def test_leaving_one_out_is_what_fitting_without_it_gives() -> None:
    sums = EventSums.of(COUNTS.words, LABELS)
    prior = WordPrior(USED, sums.coefficients(NAMES.tolist(), USED, np.full(len(USED), 0.2)))
    share, left_out = leave_out(WEIGHTED, CODES, prior)
    assert share == SHARE  # the same posts taught it
    products = (WEIGHTED.words @ WEIGHTED.words.T + WEIGHTED.characters @ WEIGHTED.characters.T).toarray()
    said = share * prior.scores(WEIGHTED)
    for row in (0, 17):
        rest = np.delete(np.arange(POSTS.rows), row)
        solved = np.linalg.solve(products[np.ix_(rest, rest)] + PENALTY * np.eye(len(rest)), (CENTRED - said)[rest])
        np.testing.assert_allclose(left_out[row], said[row] + products[row, rest] @ solved, atol=1e-5)


def test_the_classifier_is_the_ridge_regression_in_the_space_of_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cotempo.social.detector.ridge.ODDS", 0.0)
    ridge = fit_ridge(tuple(NAMES), WEIGHTED, CODES, NOBODY, NOTHING, COUNTS.weights, sharpness=1.0)
    features = sparse.hstack([WEIGHTED.words, WEIGHTED.characters]).tocsc()
    used = np.flatnonzero(np.diff(features.indptr))
    dense = features[:, used].toarray().astype(np.float64)
    exact = np.linalg.solve(dense.T @ dense + PENALTY * np.eye(len(used)), dense.T @ CENTRED)
    np.testing.assert_array_equal(np.concatenate([ridge.used_words, HASH_BUCKETS + ridge.used_characters]), used)
    np.testing.assert_allclose(np.vstack([ridge.words, ridge.characters]), exact, atol=1e-4)
    np.testing.assert_allclose(ridge.scores(WEIGHTED), dense @ exact, atol=1e-4)


def test_unlabelled_posts_help() -> None:
    seen, rest = np.arange(0, 60, 12), np.setdiff1d(np.arange(60), np.arange(0, 60, 12))
    codes = np.unique(CODES[seen], return_inverse=True)[1]
    names = tuple(NAMES[np.unique(CODES[seen])])
    judged = rest[np.isin(CODES[rest], np.unique(CODES[seen]))]
    right = []
    for others in (NOBODY, WEIGHTED.select(rest)):
        none = WordPrior(np.zeros(0, np.intp), np.zeros((0, len(names))))
        ridge = fit_ridge(names, WEIGHTED.select(seen), codes, others, none, COUNTS.weights, sharpness=1.0)
        guessed = np.array(names)[ridge.scores(WEIGHTED.select(judged)).argmax(axis=1)]
        right.append((guessed == LABELS[judged]).mean())
    assert right[1] >= right[0]


def test_sums_by_event_are_exact_and_hold_no_word_of_a_single_post() -> None:
    whole = EventSums.of(COUNTS.words, LABELS)
    again = EventSums.of(sparse.vstack([COUNTS.words] * 2).tocsr(), np.tile(LABELS, 2))
    twice = EventSums(whole.words * 2, whole.posts * 2)
    left = again.without(whole)
    np.testing.assert_array_equal(left.posts, whole.posts)
    assert (left.words >= whole.words).all()  # words of one post are there twice, too
    true = np.stack([np.asarray((COUNTS.words[name == LABELS] > 0).sum(axis=0)).ravel() for name in NAMES], axis=1)
    true = np.where(true >= FEWEST, true, 0)[USED]
    found = whole.counts(NAMES.tolist(), USED)
    assert (found >= true).all()
    assert (found == true).mean() > 0.99
    np.testing.assert_array_equal(twice.counts(NAMES.tolist(), USED), 2 * found)


def test_who_knows_an_event_can_look_its_words_up() -> None:
    sums = EventSums.of(COUNTS.words, LABELS)
    coefficients = sums.coefficients([*NAMES.tolist(), "nobody has seen this"], USED, np.ones(len(USED)))
    assert not coefficients[:, -1].any()
    guessed = (WEIGHTED.words[:, USED] @ coefficients[:, :-1]).argmax(axis=1)
    assert (guessed == CODES).mean() > 0.9


def test_posts_are_put_in_an_order_of_their_own() -> None:
    mixed = POSTS.select(np.random.default_rng(0).permutation(POSTS.rows))
    assert in_order(mixed).fingerprint() == in_order(POSTS).fingerprint()


def test_folding_is_hashing_into_fewer_buckets() -> None:
    folded, direct = fold(COUNTS.characters, 1024), hash_ngrams(POSTS.text, 1024)
    assert (folded != direct).nnz == 0
    assert hash_words(POSTS.text[:2]).shape == (2, HASH_BUCKETS)


def test_log_odds_are_those_of_smoothed_counts_and_leave_a_post_out() -> None:
    membership = np.eye(len(NAMES))[CODES]
    words, _ = log_odds(WEIGHTED, membership, COUNTS.weights)
    shares = membership.mean(axis=0)
    inside = np.asarray(((COUNTS.words > 0).T @ membership)[USED]) + shares
    rate, other = inside / inside.sum(axis=0), inside.sum(axis=1, keepdims=True) - inside
    odds = np.log(rate) - np.log(other / other.sum(axis=0))
    odds = (odds - odds.mean(axis=1, keepdims=True)) / COUNTS.weights.words[USED, None]
    np.testing.assert_array_equal(words.used, USED)
    np.testing.assert_allclose(words.coefficients, odds, atol=1e-9)
    left_out = words.leave_out(WEIGHTED.words, CODES)
    said = WEIGHTED.words[:, USED] @ odds
    own = np.arange(len(CODES)), CODES
    assert (left_out[own] < said[own]).all()  # a post speaks for its own event
    rest = np.arange(1, len(CODES))
    again, _ = log_odds(WEIGHTED.select(rest), membership[rest], COUNTS.weights)
    np.testing.assert_allclose(left_out[0], (WEIGHTED.words[:1, again.used] @ again.coefficients)[0], atol=0.05)


def test_log_odds_are_added_to_the_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    def scores() -> np.ndarray:
        return fit_ridge(tuple(NAMES), WEIGHTED, CODES, NOBODY, NOTHING, COUNTS.weights, sharpness=1.0).scores(WEIGHTED)

    with_odds = scores()
    monkeypatch.setattr("cotempo.social.detector.ridge.ODDS", 0.0)
    words, characters = log_odds(WEIGHTED, np.eye(len(NAMES))[CODES], COUNTS.weights)
    added = WEIGHTED.words[:, words.used] @ words.coefficients
    added += WEIGHTED.characters[:, characters.used] @ characters.coefficients
    np.testing.assert_allclose(with_odds - scores(), ODDS * added, atol=1e-4)


def test_pretrained_vectors_and_a_single_event_have_no_odds() -> None:
    vectors = Features(WEIGHTED.words, np.ones((len(CODES), 3), np.float32))
    one = np.ones((len(CODES), 1))
    assert not len(log_odds(vectors, np.eye(len(NAMES))[CODES], vectors.weights)[1].used)
    assert not any(len(part.used) for part in log_odds(WEIGHTED, one, COUNTS.weights))
    assert not log_odds(WEIGHTED, one, COUNTS.weights)[0].leave_out(WEIGHTED.words, 0 * CODES).any()
