"""What a party keeps: storage, ledger, audit log, and the vault that joins them.

They share a transaction: a charge, the answer it paid for and its record are committed together.

- `storage`: tables in SQLite or PostgreSQL, with one writer for each process
- `ledger`: privacy budgets, charges and stored answers
- `audit_log`: a tamper-evident log, its checkpoints, proofs and receipts
- `vault`: all of it opened, with the keys beside it
- `checkpoints`: the log signed, pinned and compared
- `stored_answers`: what opens the commitments of a record
"""
