"""The graph model of posts: attributes, graph, sampling, attention network, losses and the learner on top of them."""
