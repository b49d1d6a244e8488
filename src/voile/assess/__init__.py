"""Voile attacks itself.

Try to refute what is charged: `voile.assess.assessment` bets (`betting`) against the trade-off
curves of events (`claims`) on trials of stages (`training_canaries`, `attribute_canaries`),
of every kind of release (`release_trials`), of what parties say of their rows
(`figure_trials`) and count among them (`count_trials`). Trials are production code on
invented records.

Look for members: `membership` by losses. What is found about real ones is a
`findings.MembersFinding`, or a charged release: `members_count`.
"""
