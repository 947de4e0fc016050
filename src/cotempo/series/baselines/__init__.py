"""Baselines: every owner alone, all data in one place, and imputers of PyPOTS."""
