"""The main job: train across parties, explain for free, and leave an artefact that can be checked.

- say what all parties have agreed on: an `FederationAgreement`
- say what is whose: a `Party` and what it `Accepts`, the `ServerSide`; all of it in one process is
  a `Job`, read from people's files by `read_job`
- write trust down where nothing is private: `ExactTrustLog`
- run it: `federate` in one process; `open_node` for a party and `run_server` over any transport
"""

from voile.app.federate.accepts import Accepts
from voile.app.federate.agreement import SERVER, FederationAgreement, origin_of
from voile.app.federate.base import ServerSide
from voile.app.federate.files import read_agreement, read_job
from voile.app.federate.party import Job, Party, Say, open_node, party_key
from voile.app.federate.run import FederationRun, federate, run_server
from voile.app.federate.trust import ExactTrustLog
from voile.assess.members_count import NOT_FOR_RELEASE

__all__ = [
    "NOT_FOR_RELEASE",
    "SERVER",
    "Accepts",
    "ExactTrustLog",
    "FederationAgreement",
    "FederationRun",
    "Job",
    "Party",
    "Say",
    "ServerSide",
    "federate",
    "open_node",
    "origin_of",
    "party_key",
    "read_agreement",
    "read_job",
    "run_server",
]
