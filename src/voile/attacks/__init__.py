"""Voile attacks itself.

Try to refute what is charged: `voile.attacks.assessment` bets (`betting`) against the trade-off
curves of events (`claims`) on rehearsals of stages (`training_canaries`), releases
(`release_rehearsals`) and the moments of recommenders (`moment_rehearsals`). Rehearsals are
production code on invented records.
"""
