"""Budgets on record.

- open an account and give it a new budget: `open_budget`, `renew_budget`
- check the ledger against the log, and the log against what is kept elsewhere:
  `voile.app.budget.verification`
"""

from voile.app.budget.accounts import open_budget, opened_record, renew_budget

__all__ = ["open_budget", "opened_record", "renew_budget"]
