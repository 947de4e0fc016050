"""OneRound's search for the network that one summed Gram matrix supports best."""
