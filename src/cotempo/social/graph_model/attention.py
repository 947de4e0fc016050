"""`EventNetwork`: two layers of graph attention with a residual. Imports torch: import it late.

References
----------
Velickovic et al., Graph attention networks, ICLR 2018.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from cotempo.social.graph_model.graph import Block


class Attention(nn.Module):
    """One layer: ``h_i = sum_j a_ij W x_j`` with ``a_ij = softmax_j LeakyReLU(s . W x_j + t . W x_i)`` per head."""

    def __init__(self, inputs: int, outputs: int, heads: int):
        super().__init__()
        self.heads, self.outputs = heads, outputs
        self.project = nn.Linear(inputs, heads * outputs, bias=False)
        self.source = nn.Parameter(torch.empty(heads, outputs))
        self.target = nn.Parameter(torch.empty(heads, outputs))
        self.bias = nn.Parameter(torch.zeros(heads * outputs))
        for weight in (self.project.weight, self.source, self.target):
            nn.init.xavier_normal_(weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, features: torch.Tensor, origin: torch.Tensor, goal: torch.Tensor, targets: int) -> torch.Tensor:
        """Return ``(targets, heads * outputs)`` from ``(sources, inputs)`` and edges ``(edges,)``."""
        values = self.project(features).view(-1, self.heads, self.outputs)
        pull = (values * self.source).sum(-1)[origin] + (values[:targets] * self.target).sum(-1)[goal]
        share = edge_softmax(functional.leaky_relu(pull, 0.2), goal, targets)
        heads = zip(values.unbind(1), share.unbind(1), strict=True)
        mixed = [mix_edges(*head, origin, goal, targets) for head in heads]
        return torch.cat(mixed, dim=1) + self.bias


def mix_edges(
    values: torch.Tensor, share: torch.Tensor, origin: torch.Tensor, goal: torch.Tensor, targets: int
) -> torch.Tensor:
    """Sum the values that edges bring to each target, ``(targets, outputs)``; edges are sorted by target.

    A bag of embeddings is just that sum, and never holds a row for each edge.
    """
    begins = torch.searchsorted(goal, torch.arange(targets, device=goal.device))
    weights = share.contiguous()
    return functional.embedding_bag(origin, values.contiguous(), begins, mode="sum", per_sample_weights=weights)


def edge_softmax(scores: torch.Tensor, goal: torch.Tensor, targets: int) -> torch.Tensor:
    """Normalise scores over the edges that reach the same target, ``(edges, heads)``."""
    index = goal[:, None].expand_as(scores)
    highest = scores.new_full((targets, scores.shape[1]), -torch.inf)
    highest = highest.scatter_reduce(0, index, scores.detach(), "amax")
    raised = torch.exp(scores - highest[goal])
    total = raised.new_zeros(targets, scores.shape[1]).index_add(0, goal, raised)
    return raised / total[goal].clamp_min(1e-16)


class EventNetwork(nn.Module):
    """Map posts to vectors in which posts of one event lie together: by default 4 heads of 48, ELU, one head of 32."""

    def __init__(self, inputs: int, hidden: int = 48, heads: int = 4, outputs: int = 32):
        super().__init__()
        self.first = Attention(inputs, hidden, heads)
        self.second = Attention(hidden * heads, outputs, 1)
        self.residual = nn.Linear(inputs, outputs, bias=False)
        nn.init.xavier_normal_(self.residual.weight)

    def forward(self, features: torch.Tensor, blocks: Sequence[Block]) -> torch.Tensor:
        """Return vectors of the last block's targets, ``(targets, outputs)``; `features` are all posts'."""
        first, second = blocks
        given = features[torch.from_numpy(first.sources).to(features.device)]
        hidden = functional.elu(self._layer(self.first, given, first))
        found: torch.Tensor = self._layer(self.second, hidden, second) + self.residual(given[: second.targets])
        return found

    def _layer(self, layer: Attention, given: torch.Tensor, block: Block) -> torch.Tensor:
        device = given.device
        origin, goal = torch.from_numpy(block.origin).to(device), torch.from_numpy(block.goal).to(device)
        found: torch.Tensor = layer(given, origin, goal, block.targets)
        return found
