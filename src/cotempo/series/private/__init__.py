"""Differentially private forms of FedTDD and SeriesDiffusion."""
