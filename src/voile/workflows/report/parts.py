"""What all report pages have: a head that lets nothing in from outside, and pictures inside."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ title }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2430; background: #fff }
h1 { line-height: 1.2 } h2 { margin-top: 2.2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .5rem; border-bottom: 1px solid #d8dde6;
         vertical-align: top }
th { font-weight: 600 } td.number { text-align: right; font-variant-numeric: tabular-nums }
.promise { background: #eef2fb; border-left: 4px solid #3949ab; padding: .8rem 1rem }
.promise b { font-size: 1.4rem } .note { color: #4a5568 }
img { width: 100%; height: auto } code { background: #f3f4f6; padding: .1rem .3rem }
pre { background: #f3f4f6; padding: .8rem; overflow-x: auto } .bad { color: #a8201a }
</style>
</head>
<body>
"""
"""Up to the body; takes `title`."""


def image(figure: Figure) -> str:
    """A picture as an address that needs no host."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
