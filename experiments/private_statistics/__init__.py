"""Private statistics on public data sets: accuracy, explanations and coverage of intervals."""
