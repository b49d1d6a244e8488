"""Accounting that voile itself does not need: to compare with, and to look at.

- further accountants, and what all of them can do: `accountants`
- a Rényi filter, and what all filters can do: `filters`
- the noise that still fits an open filter: `noise`
- the odds of an attacker: `trade_off`
"""
