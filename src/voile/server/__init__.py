"""Explanations over HTTP: a door, as the command line is.

- the application: `create_app`, for a workspace that `voile.app.serving.open_served` has opened
- its description (OpenAPI): `describe`
- run it: `voile serve` (`running`)

`edge` is what every request passes: limits, identifiers, headers, logs, metrics. `identity` says
who asks, `gathering` answers strangers together, `answering` is the way of one explanation,
`problems` what is said of errors. Routes stand in one file for each protocol or duty. No file here
decides about privacy: all of that is in `voile.app.serving` and below.
"""

from voile.server.application import create_app, describe

__all__ = ["create_app", "describe"]
