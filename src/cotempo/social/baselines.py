"""The learners that DAMe is compared with, on the same graph model and with the same surface."""

from __future__ import annotations

from cotempo import learners
from cotempo.federation import register
from cotempo.social.graph_model.learner import EventLearner


@register()
class Local(EventLearner, learners.Local):
    """Every client trains the graph model alone.

    Examples
    --------
    >>> from cotempo.data import make_posts
    >>> clients, _ = make_posts(clients=2, posts=40, events=4)
    >>> fitted = Local(rounds=1, dimension=8, buckets=64).fit(clients)
    >>> len(fitted["client-0"].detect(clients["client-0"], events=2))
    40
    """


@register()
class FedAvg(EventLearner, learners.FedAvg):
    """The mean of the clients' graph models."""


@register()
class FedProx(EventLearner, learners.FedProx):
    """The mean of graph models that stay near the server's."""


@register("Per-FedAvg")
class PerFedAvg(EventLearner, learners.PerFedAvg):
    """A common graph model made to be fine-tuned."""


@register()
class Ditto(EventLearner, learners.Ditto):
    """A personal graph model beside the common one."""


@register()
class SFL(EventLearner, learners.SFL):
    """Mixtures of graph models along a graph of clients."""


@register()
class APPLE(EventLearner, learners.APPLE):
    """Graph models of all clients, mixed by each."""


@register()
class FedALA(EventLearner, learners.FedALA):
    """The own and the common graph model, mixed parameter by parameter."""
