"""Window moments: sums that determine a Gaussian process, and the choice of its prior."""
