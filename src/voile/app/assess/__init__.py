"""Try to refute what an artefact, a workspace or a federation charges for; see docs/assess.md.

- what is charged there, as trials: `find_subject`
- try it, write down what was found, and record it in the log: `assess_subject`
- attack members of an artefact, for the custodian alone: `MembersAttack`
- release how many of them an attacker would name, charged to their account: `MembersCounting`
"""

from voile.app.assess.handler import MembersAttack
from voile.app.assess.members_count import MembersCounting
from voile.app.assess.run import assess_subject
from voile.app.assess.subjects import Subject, find_subject

__all__ = [
    "MembersAttack",
    "MembersCounting",
    "Subject",
    "assess_subject",
    "find_subject",
]
