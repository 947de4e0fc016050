from __future__ import annotations

import numpy as np

from cotempo.social.encoders.characters import (
    CharacterEncoder,
    basis_of,
    document_frequencies,
    hash_ngrams,
    inverse_frequencies,
    right_vectors,
    sketch,
    weigh,
)

TEXTS = [
    "flood in the old town",
    "flood on the river",
    "train crash near the town",
    "helicopter crash",
    "مرحبا بالعالم",
]


def test_sums_over_clients_are_those_of_all_posts() -> None:
    whole = hash_ngrams(TEXTS, 256)
    parts = [hash_ngrams(TEXTS[:2], 256), hash_ngrams(TEXTS[2:], 256)]
    frequency = document_frequencies(whole)
    np.testing.assert_array_equal(sum(document_frequencies(part) for part in parts), frequency)
    weights = inverse_frequencies(frequency, len(TEXTS))
    together = sum(sketch(weigh(part, weights), 3, 8) for part in parts)
    np.testing.assert_allclose(together, sketch(weigh(whole, weights), 3, 8), rtol=1e-4, atol=1e-5)


def test_one_sketch_finds_the_leading_directions() -> None:
    rng = np.random.default_rng(0)
    words = ["flood", "river", "train", "crash", "fire", "smoke", "quake", "tower"]
    topics = [words[:2], words[2:4], words[4:6], words[6:]]
    texts = [" ".join(rng.choice(topics[row % 4], 5)) for row in range(60)]
    counts = hash_ngrams(texts, 512)
    weights = inverse_frequencies(document_frequencies(counts), 60)
    weighted = weigh(counts, weights).toarray().astype(np.float64)
    basis = basis_of(sketch(weigh(counts, weights), 1, 12), 1, 4)
    best = np.linalg.svd(weighted)[1]
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-3)
    assert (np.linalg.norm(weighted @ basis) ** 2) > 0.98 * (best[:4] ** 2).sum()


def test_vectors_have_length_one_and_empty_texts_none() -> None:
    encoder = CharacterEncoder.learn(TEXTS, dimension=3, buckets=128)
    vectors = encoder.encode([*TEXTS, "", "🔥🔥🔥"])
    np.testing.assert_allclose(np.linalg.norm(vectors[:5], axis=1), 1, atol=1e-5)
    assert not vectors[5].any()
    assert np.isfinite(vectors).all()


def test_a_megabyte_of_text_is_one_vector() -> None:
    encoder = CharacterEncoder.random(4, 64)
    assert encoder.encode(["water " * 170_000]).shape == (1, 4)
    assert encoder.encode([]).shape == (0, 4)


def test_fewer_posts_than_dimensions() -> None:
    assert CharacterEncoder.learn(TEXTS[:2], dimension=6, buckets=64).encode(TEXTS).shape == (5, 6)


def test_inner_products_of_few_posts_give_the_same_directions_as_their_vectors() -> None:
    weighted = weigh(hash_ngrams(TEXTS, 256), np.ones(256, np.float32))
    right = np.linalg.svd(weighted.toarray())[2][:3].T
    for data in (weighted, weighted.toarray()):
        found = right_vectors(data, 3)
        np.testing.assert_allclose(np.abs(np.diag(found.T @ right)), 1, rtol=1e-4)
    doubled = weigh(hash_ngrams(["flood", "flood", ""], 256), np.ones(256, np.float32))
    found = right_vectors(doubled, 3)  # one direction only; the others are empty
    np.testing.assert_allclose(found.T @ found, np.diag([1.0, 0, 0]), atol=1e-4)
