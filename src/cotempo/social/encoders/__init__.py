"""Text encoders: character n-grams, the basis that clients make together, pretrained models and their cache."""
