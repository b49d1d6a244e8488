"""Rules over public facts: what is noticed, what is done about it, and proof of both.

A tour, by what you want to do:

- say what is watched: `Rule`, `RuleSet`
- is this question allowed? `forbidden(rules, standings, Asked(...))`
- what follows from a fact? `outcomes(rules, standings, fact)`, for each of the `Fact` kinds
- do it all again from the log alone, or try other rules on its history: `Replay`

Everything here is pure: data in, data out. Nothing can charge, write or send;
`voile.app.compliance` keeps what is found in the transaction that caused it.
"""

from voile.compliance.evaluation import (
    Asked,
    Charged,
    Fact,
    Forbidden,
    Lifted,
    MemoryStandings,
    Observed,
    Outcome,
    RefusedFact,
    Renewed,
    RulesChanged,
    Stage,
    Standings,
    State,
    Use,
    forbidden,
    needs_approval,
    outcomes,
)
from voile.compliance.replay import Replay
from voile.compliance.rules import Action, Metric, Per, Rule, RuleSet

__all__ = [
    "Action",
    "Asked",
    "Charged",
    "Fact",
    "Forbidden",
    "Lifted",
    "MemoryStandings",
    "Metric",
    "Observed",
    "Outcome",
    "Per",
    "RefusedFact",
    "Renewed",
    "Replay",
    "Rule",
    "RuleSet",
    "RulesChanged",
    "Stage",
    "Standings",
    "State",
    "Use",
    "forbidden",
    "needs_approval",
    "outcomes",
]
