"""The sigmoid Cox process: variational updates, posterior, kernels, and the aggregation of kernel posteriors."""
