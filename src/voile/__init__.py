"""voile."""
