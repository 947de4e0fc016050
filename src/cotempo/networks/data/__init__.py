"""Data with a known network: generators, and readers of DREAM4 and NetSim."""
