"""Privacy of what leaves: the secure sum, noise with its accounting, and what was promised."""
