"""Attacks that experiments try: by hand, on pictures, and bounds from a single run.

- what explanations give away: `explanation_attacks`
- what gradients give away: `gradient_leakage`, and with torch `gradient_inversion`
- what a global model gives away to a curious client, with torch: `generative`
- who was a member, by likelihood ratios: `membership`
- lower bounds of epsilon from one run: `one_run`
- what was found, with its provenance: `findings`
"""
