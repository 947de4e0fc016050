from __future__ import annotations

import numpy as np

from cotempo.data import Posts
from cotempo.social.detector.store import language_of
from cotempo.social.graph_model.graph import extract_attributes, join_posts, sample_blocks, sample_neighbours

RNG = np.random.default_rng(0)
BAGS = [tuple({f"a{code}" for code in RNG.integers(0, 30, 3)}) for _ in range(60)]


def shares(bags: list[tuple[str, ...]], cap: int) -> np.ndarray:
    count = {name: sum(name in bag for bag in bags) for bag in bags for name in bag}
    kept = [{name for name in bag if 2 <= count[name] <= cap} for bag in bags]
    found = np.array([[float(len(one & other)) for other in kept] for one in kept])
    np.fill_diagonal(found, 1.0)
    return found


def test_edges_count_shared_attributes_below_the_cap() -> None:
    for cap in (3, 300):
        np.testing.assert_array_equal(join_posts(BAGS, cap).toarray(), shares(BAGS, cap))


def test_posts_that_all_share_one_hub_keep_only_themselves() -> None:
    edges = join_posts([("hub",)] * 500, cap=300)
    assert edges.nnz == 500
    assert join_posts([(), ()]).toarray().tolist() == [[1, 0], [0, 1]]


def test_sampling_takes_true_neighbours_and_at_most_the_fanout() -> None:
    edges = join_posts(BAGS)
    nodes = np.array([5, 17, 3])
    block = sample_neighbours(edges, nodes, 4, np.random.default_rng(1))
    assert np.bincount(block.goal, minlength=3).max() <= 4
    ends = block.sources[block.origin]
    assert all(edges[nodes[goal], end] > 0 for goal, end in zip(block.goal, ends, strict=True))
    assert len(set(zip(block.goal.tolist(), ends.tolist(), strict=True))) == len(ends)
    whole = sample_neighbours(edges, nodes, 1000, np.random.default_rng(1))
    assert len(whole.goal) == edges[nodes].nnz
    first, second = sample_blocks(edges, nodes, np.random.default_rng(2), (10, 5))
    assert second.targets == 3
    assert first.targets == len(second.sources)


def test_attributes_of_a_post() -> None:
    text = "RT @Anna: The Red Cross is in Boulder. See http://www.nws.gov/alerts #COwx 🚨"
    posts = Posts([0.0], (text,), author=("Bo",), hashtags=(("COwx",),))
    found = extract_attributes(posts)[0]
    assert {"entity:boulder", "site:nws.gov", "tag:cowx", "user:anna", "user:bo"} <= set(found)
    assert any("red cross" in name for name in found)


def test_the_language_is_the_column_or_the_script() -> None:
    posts = Posts([0.0] * 3, ("فيضان في المدينة", "flood", "🔥"), extra={"lang": (None, "en", None)})
    assert [language_of(posts, row) for row in range(3)] == ["Arabic script", "en", "unknown"]
