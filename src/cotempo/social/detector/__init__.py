"""The event detector: method, client's part, model, and the classifiers and sums it is made of."""
