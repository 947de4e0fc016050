from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import normalized_mutual_info_score

from cotempo.errors import DataError, ParameterError
from cotempo.social.clustering import (
    assign_outliers,
    cluster_scores,
    group_known,
    group_unknown,
    mutual_information,
    quick_kmeans,
)

RNG = np.random.default_rng(0)
BLOBS = np.repeat(np.eye(3) * 6, 15, axis=0) + RNG.normal(size=(45, 3)) * 0.3
TRUTH = np.repeat(np.arange(3), 15)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_mutual_information_is_sklearns(pairs: list[tuple[int, int]]) -> None:
    first, second = zip(*pairs, strict=True)
    assert mutual_information(first, second) == pytest.approx(normalized_mutual_info_score(first, second), abs=1e-9)


def test_blobs_are_found_with_and_without_their_number() -> None:
    assert cluster_scores(TRUTH, group_known(BLOBS, 3))["NMI"] == 1
    assert cluster_scores(TRUTH, group_unknown(BLOBS))["ARI"] == 1
    assert mutual_information(TRUTH, quick_kmeans(BLOBS.astype(np.float32), 3, np.random.default_rng(1))) == 1


def test_outliers_join_the_nearest_centre() -> None:
    codes = np.array([0, 0, 1, -1])
    assert assign_outliers(np.array([[0.0], [0.2], [5.0], [4.0]]), codes).tolist() == [0, 0, 1, 1]
    assert assign_outliers(np.zeros((2, 1)), np.array([-1, -1])).tolist() == [0, 0]


def test_one_post_and_one_event() -> None:
    assert group_unknown(np.zeros((1, 2))).tolist() == [0]
    assert group_known(np.zeros((1, 2)), 1).tolist() == [0]
    assert set(group_known(BLOBS, 1)) == {0}


def test_more_events_than_posts_is_refused() -> None:
    with pytest.raises(DataError, match="2 posts and 3 events"):
        group_known(np.zeros((2, 2)), 3)
    with pytest.raises(ParameterError, match="at least 1"):
        group_known(np.zeros((2, 2)), 0)
