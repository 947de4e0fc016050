"""Trees of arrays as bytes, and files that are whole or not there at all."""
