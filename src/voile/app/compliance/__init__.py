"""Rules at work: they stand in the way of a charge, and see what comes of it.

- `enforcement`: inside the transaction of a charge, a refusal, a renewal or an observation
- `delivery`: what people are told afterwards, from an outbox that no crash empties

The rules in force are those that the database holds (`put_in_force`), whichever door is used.
`voile.compliance` decides; nothing here does.
"""
