"""How good learned explainers are on public data sets, and which way of training is better."""
