"""On real posts, where available: COTEMPO_DATA, or shared/data beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cotempo.data import read_posts
from cotempo.social import EventDetector, cluster_scores
from cotempo.social.clustering import group_known

ROOT = Path(os.environ.get("COTEMPO_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
FILE = ROOT / "social" / "crisis_clients.parquet"


@pytest.mark.skipif(not FILE.exists(), reason="the real posts are not here")
def test_the_detector_is_right_on_real_posts_and_not_far_below_the_timestamp() -> None:
    rng = np.random.default_rng(0)
    chosen = {
        name: posts.select(np.sort(rng.permutation(posts.rows)[:250])) for name, posts in read_posts(FILE).items()
    }
    learn = {name: posts.select(np.arange(0, 250, 2)) for name, posts in chosen.items()}
    fitted = EventDetector(dimension=60, buckets=4096, compare=False).fit(learn)
    scores = []
    for name, posts in chosen.items():
        new = posts.select(np.arange(1, 250, 2))
        by_time = group_known(new.time[:, None], len(set(new.event)))
        rows = (fitted[name].detect(new).event, by_time)
        scores.append([cluster_scores(new.event, found)["NMI"] for found in rows])
    detector, timestamp = np.mean(scores, axis=0)
    assert detector > 0.9
    assert detector > timestamp - 0.02
