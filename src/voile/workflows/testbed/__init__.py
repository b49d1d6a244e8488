"""A SuperLink and nodes on this machine, for trying out and for tests only."""
