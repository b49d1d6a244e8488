"""What several experiments share, and voile itself does not need."""
