"""Tables 6 to 9 of the recommender framework, with sound guarantees and named protocols."""
