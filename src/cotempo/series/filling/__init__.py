"""Imputation in stages: interpolation, factor models and networks, each as far as held-out measurements support it."""
