"""Which clipping norm, for how many rows a client: chosen once, on Adult and on generated data."""
