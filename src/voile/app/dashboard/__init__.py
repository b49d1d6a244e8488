"""What the pages of the dashboard show, as plain data.

- `Dashboard`: a served workspace, with what is remembered between two looks at it
- who is signed in, and what each page needs: `sessions`, `frame`
- one module for each page: `overview`, `budgets`, `records`, ...

Templates of `voile.views` show these results; `voile.server.dashboard` is the door. Nothing here
charges anything: what costs something is asked of the same handlers as by any other door.
"""

from voile.app.dashboard.dashboard import Dashboard
from voile.app.dashboard.frame import DashboardPage, Frame, Place, places_of

__all__ = ["Dashboard", "DashboardPage", "Frame", "Place", "places_of"]
