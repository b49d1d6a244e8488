"""What `benchmarks.flower` starts: a node of voile, and a bare Flower app with its arithmetic."""
