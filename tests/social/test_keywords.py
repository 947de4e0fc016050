from __future__ import annotations

import numpy as np
from social.keywords import find_keywords, remove_keywords

from cotempo.data import make_posts
from cotempo.social import CharacterEncoder, cluster_scores
from cotempo.social.clustering import group_known


def test_without_its_keywords_an_event_is_harder_to_tell() -> None:
    clients, _ = make_posts(clients=2, posts=120, events=8, seed=0)
    keywords = find_keywords(clients)
    posts = clients["client-0"]
    stripped = remove_keywords(posts, keywords)
    assert all(not set(text.split()) & keywords for text in stripped.text)
    scores = []
    for table in (posts, stripped):
        vectors = CharacterEncoder.learn(table.text, dimension=20, buckets=1024).encode(table.text)
        scores.append(cluster_scores(table.event, group_known(vectors, len(set(table.event))))["NMI"])
    assert scores[1] < scores[0]


def test_removing_nothing_changes_nothing_but_white_space() -> None:
    posts = make_posts(clients=1, posts=10, events=2)[0]["client-0"]
    assert remove_keywords(posts, []).text == posts.text
    assert np.array_equal(remove_keywords(posts, ["never"]).time, posts.time)
