"""The main job: train across parties, explain for free, and leave an artefact that can be checked.

- from a config and people's files to a `Job`: `voile.workflows.federate.config`, `files`
- run it: `federate`
"""

from voile.workflows.federate.run import (
    NOT_FOR_RELEASE,
    SERVER,
    Federated,
    Job,
    Say,
    federate,
    outcomes,
    server_origin,
)

__all__ = [
    "NOT_FOR_RELEASE",
    "SERVER",
    "Federated",
    "Job",
    "Say",
    "federate",
    "outcomes",
    "server_origin",
]
