"""What every page of voile shares: one look, in light, in the dark and on paper.

A page needs nothing else and asks no other host for anything; a content security policy sees to
that. Whatever is rendered here is escaped.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

_COLOURS: Final = """\
--ink: #1c2430; --quiet: #4a5568; --paper: #fff; --line: #d8dde6; --soft: #eef2fb; --mark: #3949ab;
--raises: #c8553d; --lowers: #3b6fb6; --bad: #a8201a; --warn: #8a5a00; --good: #1f6f43;
--code: #f3f4f6;"""
_DARK: Final = """\
--ink: #e4e8ef; --quiet: #aab4c3; --paper: #161b22; --line: #38414f; --soft: #1f2838;
--mark: #8c9eff; --raises: #e58a73; --lowers: #7fa8e0; --bad: #ff8a80; --warn: #e3b341;
--good: #6fce98; --code: #222a35;"""
STYLE: Final = f"""\
.voile {{ {_COLOURS}
  font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper) }}
@media (prefers-color-scheme: dark) {{ .voile {{ {_DARK} }} }}
.voile h1 {{ line-height: 1.2 }} .voile h2 {{ margin-top: 2.2rem }}
/* A notebook has colours of its own for tables, which may be those of the other scheme. */
.voile table {{ border-collapse: collapse; width: 100%; color: inherit; font-size: inherit }}
.voile tr {{ background: none !important }} div.voile {{ padding: .5rem 1rem }}
.voile th, .voile td {{ text-align: left; padding: .3rem .5rem; vertical-align: top;
  border-bottom: 1px solid var(--line) }}
.voile th {{ font-weight: 600 }}
.voile th.number, .voile td.number {{ text-align: right; font-variant-numeric: tabular-nums }}
.voile td.number {{ white-space: nowrap }}
.voile .promise {{ background: var(--soft); border-left: 4px solid var(--mark);
  padding: .8rem 1rem }}
.voile .promise b {{ font-size: 1.2rem }}
.voile .alarm {{ border: 2px solid var(--bad); padding: .8rem 1rem }}
.voile .alarm b, .voile .bad {{ color: var(--bad) }}
.voile .note, .voile .formal {{ color: var(--quiet) }} .voile .formal {{ font-size: .85rem }}
.voile .wide {{ overflow-x: auto; margin: 1rem 0 }}
.voile svg.picture {{ width: 100%; min-width: 34rem; height: auto; fill: var(--ink) }}
.voile figure {{ margin: 1rem 0 }}
.voile code, .voile pre {{ background: var(--code); padding: .1rem .3rem;
  overflow-wrap: anywhere }}
.voile pre {{ padding: .8rem; white-space: pre-wrap }}
.voile .bars td.bar {{ width: 45%; padding: .3rem 0 }}
.voile .bars svg {{ width: 100%; height: 1.4rem; display: block }}
.voile .raises {{ fill: var(--raises) }} .voile .lowers {{ fill: var(--lowers) }}
.voile .pale {{ opacity: .35 }}
.voile .zero, .voile .whisker {{ stroke: var(--ink); stroke-width: 1;
  vector-effect: non-scaling-stroke }}
@media screen and (max-width: 34rem) {{ .voile .bars {{ display: block; font-size: .9rem }}
  .voile .bars tbody {{ display: grid; grid-template-columns: 1fr auto auto }}
  .voile .bars tr {{ display: grid; grid-template-columns: subgrid; grid-column: 1 / -1;
  border-bottom: 1px solid var(--line) }}
  .voile .bars th, .voile .bars td {{ border: 0; padding: .3rem; overflow-wrap: anywhere }}
  .voile .bars th:last-child {{ display: none }}
  .voile .bars td.bar {{ grid-column: 1 / -1; width: auto }} }}
@media print {{ .voile {{ {_COLOURS} font-size: 11pt }} body.voile {{ margin: 0; max-width: none }}
  .voile h2 {{ break-after: avoid }} .voile .promise, .voile .alarm, .voile tr, .voile svg
  {{ break-inside: avoid }} .voile .wide {{ overflow: visible }}
  .voile svg.picture {{ min-width: 0 }} @page {{ size: A4; margin: 18mm }} }}
"""
_FRAME: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ title }}</title>
<style>
{{ style }}
html { background: #fff } @media (prefers-color-scheme: dark) { html { background: #161b22 } }
@media print { html { background: #fff } }
body { max-width: 48rem; margin: 2rem auto; padding: 0 1rem }
</style>
</head>
<body class="voile">
{{ body }}
</body>
</html>
"""


def fragment(template: str, **values: Any) -> str:
    """A part of a page, which other templates take as it is; whatever it is given is escaped."""
    from markupsafe import Markup

    return Markup(_template(template).render(**values))


def framed(title: str, body: str) -> str:
    """A whole page around a body that `fragment` has made."""
    from markupsafe import Markup

    return str(fragment(_FRAME, title=title, style=Markup(STYLE), body=body))


@lru_cache(maxsize=32)
def _template(text: str) -> Any:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
