"""FedPP's default: one curve of time or one function of history for all clients, learned from sums."""
