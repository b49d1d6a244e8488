"""One person's page: why this result, what is promised, how to check it, what it does not say.

It holds what is in the explanation, and nothing more: no value of the explained row and no
prediction where that row is what is protected.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Final

from voile.app.explain.released import ReleasedExplanation
from voile.core.atomic_file import replace_file
from voile.core.description import Description
from voile.core.explanation_page import alarms_html, promises_html, row_html
from voile.core.guarantee import ProtectedUnit
from voile.core.page_frame import fragment, framed

PAGE: Final = ".html"
TITLE: Final = "Why this result"
_BODY: Final = """\
<h1>{{ title }}</h1>
{{ alarms }}{{ row }}
<h2>What is promised</h2>
{{ promises }}
{% if assessed %}<h2>What an attacker found</h2>
<p>voile {{ assessed.software }} tried to refute what is promised, on invented records; nobody's
were looked at. <b{% if assessed.verdict == "refuted" %} class="bad"{% endif
%}>{{ assessed.word | capitalize }}</b>: {{ meaning }} (Record {{ assessed.record }} of the
operator's log.)</p>
{% endif %}<h2>How to check it</h2>
<p>{{ payment | capitalize }} of the operator's log{% if command %}. The receipt
<code>{{ receipt }}</code> proves it, without trust in whoever made this page. In the folder of this
page:</p>
<pre>{{ command }}</pre>
<p class="note">The policy says whose signature counts: take it from somebody you trust, not from
whoever handed you the page. Whoever holds the receipt can check guesses of what was asked; keep it
as you keep this page.</p>
{% else %}. There is no receipt beside this page, because no checkpoint was signed when it was made.
</p>{% endif %}
<h2>What this does not say</h2>
<ul>{% for line in limits %}<li>{{ line }}</li>{% endfor %}</ul>
"""
_MEANING: Final = {
    "refuted": "more is released than is promised. Do not rely on the promise above.",
    "not refuted": "an attack that finds out half of the noise found nothing. That is no proof "
    "that there is nothing to be found.",
    "blind": "the attack was too short to detect even half of the noise. Nothing follows from it.",
}
_LIMITS: Final = (
    "It says how the model came to its result, not what causes what: changing a value need not "
    "change anything for the person.",
    "It does not say that the result is right, or fair.",
    "Contributions depend on the rows that the model is compared with: over other rows they are "
    "other numbers.",
)
_OWN: Final = (
    "The values on this page are those of the person whom it is about, and no promise covers them: "
    "it is for this person."
)
_PARTLY_OWN: Final = (
    "Values that were missing were filled in, as in training, and are not those of the person: "
    "what they add says nothing about her or him. The others are, and no promise covers them: this "
    "page is for this person."
)
_HIDDEN: Final = (
    "What stands in the record, and what the model predicts for it, is not on this page: the "
    "record is what is protected."
)


@dataclass(frozen=True)
class Checked:
    """What the page can be checked with.

    Args:
        answer: the saved explanation.
        receipt: None if none was written.
        policy: whose signature counts.
    """

    answer: Path | None
    receipt: Path | None
    policy: Path

    def command(self, folder: Path) -> str:
        """The one command that checks it from there; empty where nothing can be checked."""
        if self.receipt is None or self.answer is None or self.answer.suffix != ".voile":
            return ""
        receipt, answer, policy = (
            relpath(path.absolute(), folder.absolute())
            for path in (self.receipt, self.answer, self.policy)
        )
        words = ("voile", "audit", "verify", receipt, "--answer", answer, "--policy", policy)
        return shlex.join(words)


def write_page(explained: ReleasedExplanation, path: Path, checked: Checked) -> Path:
    """Write the page of the one row; whole or not at all, for its owner only."""
    content = person_html(explained, checked, path.parent).encode()
    return replace_file(path, content, mode=0o600)


def person_html(explained: ReleasedExplanation, checked: Checked, folder: Path) -> str:
    """The page, as it lies in a folder."""
    described = explained.describe(0)
    body = fragment(
        _BODY,
        title=TITLE,
        alarms=alarms_html(described.alarms),
        row=row_html(described),
        promises=promises_html(described),
        assessed=explained.assessed,
        meaning="" if explained.assessed is None else _MEANING[explained.assessed.verdict],
        payment=explained.payment,
        command=checked.command(folder),
        receipt="" if checked.receipt is None else checked.receipt.name,
        limits=_limits(described),
    )
    return framed(TITLE, body)


def _limits(described: Description) -> tuple[str, ...]:
    units = {each.protected.unit for each in described.guarantees}
    more = (_HIDDEN,) if ProtectedUnit.EXPLAINED_ROW in units else ()
    own = (_PARTLY_OWN if described.some_missing else _OWN,) if described.shows_values else ()
    return (*_LIMITS, *more, *own)
