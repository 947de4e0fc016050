"""The coordinator's process: the one loop, as the ServerApp of a Flower run, and the commands of an operator."""
