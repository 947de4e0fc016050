"""`Local`, `FedAvg` and six more on DAMe's graph model; `cotempo.learners` has each algorithm with its reference."""

from cotempo import learners
from cotempo.federation import register
from cotempo.social.graph_model.learner import EventLearner


@register()
class Local(EventLearner, learners.LocalLearner):
    """Train a graph model at every client alone.

    Examples
    --------
    >>> from cotempo.data import make_posts
    >>> clients, _ = make_posts(clients=2, posts=40, events=4)
    >>> fitted = Local(rounds=1, dimension=8, buckets=64).fit(clients)
    >>> len(fitted["client-0"].detect(clients["client-0"], events=2))
    40
    """


@register()
class FedAvg(EventLearner, learners.FedAvgLearner):
    """Average the clients' graph models."""


@register()
class FedProx(EventLearner, learners.FedProxLearner):
    """Average graph models that stay near the server's."""


@register("Per-FedAvg")
class PerFedAvg(EventLearner, learners.PerFedAvgLearner):
    """Learn a common graph model that is fine-tuned at each client."""


@register()
class Ditto(EventLearner, learners.DittoLearner):
    """Learn a personal graph model beside the common one."""


@register()
class SFL(EventLearner, learners.SFLLearner):
    """Mix graph models along a graph of clients."""


@register()
class APPLE(EventLearner, learners.APPLELearner):
    """Mix the graph models of all clients at each client."""


@register()
class FedALA(EventLearner, learners.FedALALearner):
    """Mix the client's own and the common graph model, parameter by parameter."""
