"""Common parts of FDBNL and PFDBNL: penalties, acyclicity, DYNOTEARS, and the trial that chooses the sparsity."""
