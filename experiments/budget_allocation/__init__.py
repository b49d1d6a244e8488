"""Algorithm 2 of the recommender framework and equal-variance spending, on bursty daily traces."""
