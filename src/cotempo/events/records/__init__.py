"""A client's events as arrays: records, histories, features and the inputs of encoders."""
