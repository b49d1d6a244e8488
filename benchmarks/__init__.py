"""voile beside its peers, alternating in one run; `python -m benchmarks [NAME ...]`."""
