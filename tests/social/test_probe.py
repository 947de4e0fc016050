import numpy as np
import torch

from cotempo.learners.training import from_vector, to_vector
from cotempo.social.graph_model.attention import EventNetwork
from cotempo.social.probe import probe_graph, similarities


def test_equal_models_answer_alike() -> None:
    torch.manual_seed(0)
    model, other = EventNetwork(5, 4, 2, 3), EventNetwork(5, 4, 2, 3)
    models = np.stack([to_vector(model), to_vector(model), to_vector(other)])

    def make(row: np.ndarray) -> EventNetwork:
        made = EventNetwork(5, 4, 2, 3)
        from_vector(made, row)
        return made

    found = similarities(models, make, 5, np.random.default_rng(0))
    np.testing.assert_allclose(found[0, 1], 1, atol=1e-6)
    assert found[0, 2] < 0.999
    features, edges = probe_graph(5, np.random.default_rng(0))
    assert features.shape[0] == edges.shape[0]
    assert (edges.diagonal() == 1).all()
