"""Pictures of a network: time slices, matrices, and edges marked against the truth."""
