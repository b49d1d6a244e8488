"""The main job: train across parties, explain for free, and leave an artefact that can be checked.

- say what is to be done: a `Job`; from a config and people's files, by
  `voile.workflows.federate.config` and `voile.workflows.federate.files`
- run it: `federate`
"""

from voile.workflows.federate.job import Job
from voile.workflows.federate.results import Say
from voile.workflows.federate.run import NOT_FOR_RELEASE, SERVER, Federated, federate, server_origin

__all__ = [
    "NOT_FOR_RELEASE",
    "SERVER",
    "Federated",
    "Job",
    "Say",
    "federate",
    "server_origin",
]
