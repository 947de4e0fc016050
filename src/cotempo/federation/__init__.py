"""The federation core: messages, the contract of a method, the one loop, and the run folder."""
