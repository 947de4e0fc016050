"""A site's three processes: `daemon` restarts the other two, `node` is Flower's SuperNode, `worker` answers."""
