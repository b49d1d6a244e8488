"""Processes of the service benchmark: who asks, and a server that answers a constant."""
