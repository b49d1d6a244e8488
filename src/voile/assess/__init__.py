"""Voile attacks itself.

Try to refute what is charged: `voile.assess.assessment` bets (`betting`) against the trade-off
curves of events (`claims`) on trials of stages (`training_canaries`), of every kind of release
(`release_trials`), and of what parties say of their rows and count among them (`figure_trials`).
Trials are production code on invented records.

Look for members: `membership` by losses. What is found about real ones is a
`findings.MembersFinding`, or a charged release: `members_count`.
"""
