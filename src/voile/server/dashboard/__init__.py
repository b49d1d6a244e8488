"""The dashboard's door: sessions, pages and forms for people.

`door` is what every page passes: who is signed in, tokens of forms, headers, and problems as pages.
`signing_in`, `pages` and `forms` are the routes. What a page shows is found by
`voile.app.dashboard`, and shown by `voile.views.dashboard`.
"""

from voile.server.dashboard import asking, knowing, people, signing_in
from voile.server.dashboard.routes import router

for _each in (asking, knowing, people, signing_in):
    router.include_router(_each.router)

__all__ = ["router"]
