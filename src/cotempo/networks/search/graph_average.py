"""`average_graphs`: where rows are few no single graph is likely, but single edges may be.

An edge is kept when most of the probability lies on graphs that have it. Of all graphs that one is, on average, fewest
edges away from the truth, a reversed edge counting as two.
"""

import numpy as np

from cotempo.networks.search.evidence import Evidence, Parents
from cotempo.networks.search.parents import drop
from cotempo.networks.search.prior_knowledge import Constraints
from cotempo.typing import Floats

#: Share of moves that try to reverse an edge, not to add or drop one.
REVERSALS = 0.3


class GraphChain:
    """A Metropolis chain over acyclic graphs, whose stationary distribution is their posterior.

    The evidence must be Bayesian; its hyperparameters stay fixed. `parents` is the graph to begin from.
    """

    def __init__(self, evidence: Evidence, constraints: Constraints, parents: list[Parents]):
        self.evidence = evidence
        self.allowed, self.required = constraints
        self.parents = list(parents)
        self._known: dict[tuple[int, Parents], list[float]] = {}

    def probabilities(self, rng: np.random.Generator, steps: int) -> Floats:
        """Return the share of time each edge is there, (side, variables); the first fifth does not count."""
        count, side = self.evidence.variables, len(self.evidence.gram)
        total = np.zeros((side, count))
        samples = 0
        nodes, columns = rng.integers(0, count, steps).tolist(), rng.integers(0, side, steps).tolist()
        reverse, chance = (rng.random(steps) < REVERSALS).tolist(), np.log(rng.random(steps)).tolist()
        for step in range(steps):
            node, column = nodes[step], columns[step]
            if not self.allowed[node, column] or column in self.required[node]:
                continue
            if not reverse[step]:
                self._toggle(node, column, chance[step])
            elif column < count and column in self.parents[node]:
                self._reverse(node, column, chance[step])
            if step >= steps // 5 and step % count == 0:
                samples += 1
                for target, chosen in enumerate(self.parents):
                    total[list(chosen), target] += 1.0
        return total / max(samples, 1)

    def _toggle(self, node: int, column: int, chance: float) -> None:
        if chance < self._gains(node)[column] and (column in self.parents[node] or not self._leads(node, column)):
            self.parents[node] = _flip(self.parents[node], column)

    def _reverse(self, node: int, parent: int, chance: float) -> None:
        if not self.allowed[parent, node] or chance >= self._gains(node)[parent] + self._gains(parent)[node]:
            return
        before = self.parents[node]
        self.parents[node] = _flip(before, parent)
        if self._leads(parent, node):
            self.parents[node] = before
        else:
            self.parents[parent] = _flip(self.parents[parent], node)

    def _gains(self, node: int) -> list[float]:
        """Return, for every column, what making it a parent, or no parent any more, would gain."""
        parents = self.parents[node]
        known = self._known.get((node, parents))
        if known is None:
            _, gains, dropping = self.evidence.profile(node, parents)
            gains[list(parents)] = dropping
            known = self._known[node, parents] = gains.tolist()
        return known

    def _leads(self, source: int, target: int) -> bool:
        """Return whether a path inside the slice leads from `source` to `target`."""
        count = self.evidence.variables
        if target >= count:
            return False
        reached, waiting = {target}, [target]
        while waiting:
            for parent in self.parents[waiting.pop()]:
                if parent == source:
                    return True
                if parent < count and parent not in reached:
                    reached.add(parent)
                    waiting.append(parent)
        return False


def likely_graph(probabilities: Floats, required: list[Parents]) -> list[Parents]:
    """Return the edges more likely than not, of (side, variables), the likeliest first, none that closes a cycle."""
    count, likely = probabilities.shape[1], probabilities.copy()
    for target, chosen in enumerate(required):
        likely[list(chosen), target] = 2.0  # before all others
    parents: list[set[int]] = [set() for _ in required]
    ancestors = np.eye(count, dtype=np.bool_)
    for flat in np.argsort(-likely, axis=None, kind="stable").tolist():
        source, target = divmod(flat, count)
        if likely[source, target] <= 0.5:
            break
        if source < count:
            if ancestors[target, source]:
                continue
            ancestors |= np.outer(ancestors[:, source], ancestors[target])
        parents[target].add(source)
    return [tuple(sorted(chosen)) for chosen in parents]


def average_graphs(
    evidence: Evidence, constraints: Constraints, parents: list[Parents], rng: np.random.Generator
) -> list[Parents]:
    """Return the graph of the likely edges, from a chain that begins at `parents`."""
    edges = evidence.variables * len(evidence.gram)
    steps = max(min(20_000, 400 * edges), 20 * edges)
    return likely_graph(GraphChain(evidence, constraints, parents).probabilities(rng, steps), constraints.required)


def _flip(parents: Parents, column: int) -> Parents:
    return drop(parents, column) if column in parents else tuple(sorted((*parents, column)))
