from __future__ import annotations

import numpy as np
import torch

from cotempo.social.graph_model.attention import Attention, EventNetwork, edge_softmax
from cotempo.social.graph_model.graph import join_posts, sample_blocks
from cotempo.social.graph_model.losses import event_centres, event_constraint, triplet_loss

BAGS = [(f"a{row % 5}", f"b{row % 3}") for row in range(20)]
EDGES = join_posts(BAGS)


def test_the_layer_is_dense_attention_on_the_edges() -> None:
    torch.manual_seed(0)
    layer = Attention(6, 4, heads=2)
    features = torch.randn(20, 6)
    linked = torch.from_numpy(EDGES.toarray()) > 0
    values = layer.project(features).view(20, 2, 4)
    pull = torch.nn.functional.leaky_relu(
        (values * layer.source).sum(-1)[None] + (values * layer.target).sum(-1)[:, None], 0.2
    )
    share = pull.masked_fill(~linked[:, :, None], -torch.inf).softmax(dim=1)
    expected = torch.einsum("ijh,jhd->ihd", share, values).reshape(20, -1) + layer.bias
    block = sample_blocks(EDGES, np.arange(20), np.random.default_rng(0), (100,))[0]
    found = layer(features[block.sources], torch.from_numpy(block.origin), torch.from_numpy(block.goal), 20)
    torch.testing.assert_close(found, expected)
    aim = torch.randn_like(found)
    slopes = [torch.autograd.grad((made * aim).sum(), list(layer.parameters())) for made in (found, expected)]
    torch.testing.assert_close(*slopes)


def test_edge_softmax_survives_large_scores() -> None:
    share = edge_softmax(torch.tensor([[1e4], [1e4 - 1], [-1e4]]), torch.tensor([0, 0, 1]), 2)
    torch.testing.assert_close(share[:2].sum(), torch.tensor(1.0))
    assert share[2] == 1


def test_a_batch_gets_the_vectors_of_the_whole_graph() -> None:
    torch.manual_seed(0)
    model = EventNetwork(6, 4, 2, 3)
    features = torch.randn(20, 6)
    rng = np.random.default_rng(0)
    whole = model(features, sample_blocks(EDGES, np.arange(20), rng, (100, 100)))
    rows = np.array([7, 2])
    torch.testing.assert_close(model(features, sample_blocks(EDGES, rows, rng, (100, 100))), whole[rows])
    assert whole.shape == (20, 3)


def test_the_triplet_loss_pulls_events_together() -> None:
    codes = torch.tensor([0, 0, 0, 1, 1, 1])
    vectors = torch.randn(6, 2, generator=torch.Generator().manual_seed(1)).requires_grad_()
    stream = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam([vectors], lr=0.1)
    first = triplet_loss(vectors, codes, stream)
    for _ in range(100):
        optimiser.zero_grad()
        loss = triplet_loss(vectors, codes, stream)
        loss.backward()
        optimiser.step()
    assert loss < 0.1 * first
    centres = event_centres(vectors, codes)
    assert (centres[0] - centres[1]).norm() > 2


def test_without_pairs_or_negatives_the_loss_is_zero() -> None:
    stream = torch.Generator().manual_seed(0)
    assert triplet_loss(torch.randn(3, 2), torch.tensor([0, 0, 0]), stream) == 0
    assert triplet_loss(torch.randn(3, 2), torch.tensor([0, 1, 2]), stream) == 0
    assert triplet_loss(torch.tensor([[0.0], [0.0], [99.0]]), torch.tensor([0, 0, 1]), stream) == 0


def test_the_constraint_is_the_distance_of_event_centres() -> None:
    own, codes = torch.zeros(4, 2), torch.tensor([0, 0, 1, 1])
    common = torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.0, 1.0], [0.0, 1.0]])
    assert float(event_constraint(common, own, codes)) == 3.0
