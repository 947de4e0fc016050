"""Neural point processes by federated averaging, the baseline from deep learning."""
