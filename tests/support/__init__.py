"""What only tests need, and voile itself does not."""
