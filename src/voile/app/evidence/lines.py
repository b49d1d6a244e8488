"""`EvidenceLine`: one item that somebody asks for, and where its evidence is."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from voile.core.errors import InvalidInput
from voile.core.input_file import LARGEST_TEXT, read_file
from voile.core.toml_text import parse_toml

RECORDS_PAGE: Final = "records.html"
_OF_DECISION: Final = re.compile(r"^decision-\d+(-\d+)?(?=\.)")


class Standing(StrEnum):
    """Whether there is evidence."""

    PRESENT = "present"
    MISSING = "missing"
    TO_STATE = "for you to state"


class Link(NamedTuple):
    """Where evidence is, from the folder of the pages.

    Args:
        record: its number in the log; None for a file.
    """

    text: str
    href: str
    record: int | None = None


def to_record(number: int) -> Link:
    """A record, as it stands on the page of records.

    >>> to_record(7).href
    'records.html#record-7'
    """
    return Link(f"record {number}", f"{RECORDS_PAGE}#record-{number}", number)


def to_file(name: str) -> Link:
    """A file beside the pages."""
    return Link(name, name)


@dataclass(frozen=True, kw_only=True)
class EvidenceLine:
    """One item.

    Args:
        key: names the item in JSON and in a file of statements.
        asked: what is asked for.
        found: what there is; what would make it, where it is missing.
        links: where it is; at least one, unless somebody stated it.
        stated_by: who did.
    """

    key: str
    asked: str
    standing: Standing
    found: str
    links: tuple[Link, ...] = ()
    stated_by: str = ""

    def __post_init__(self) -> None:
        has_source = bool(self.stated_by) or any(each.record is not None for each in self.links)
        if (self.standing is Standing.PRESENT) != has_source:
            raise InvalidInput(
                f"{self.key}: a line is present if it links to a record or says who stated it, "
                f"found {self.standing.value!r} with {len(self.links)} links"
            )

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        links = [{"text": each.text, "href": each.href} for each in self.links]
        return {
            "key": self.key,
            "asked": self.asked,
            "standing": self.standing.value,
            "found": self.found,
            "links": links,
            "stated_by": self.stated_by,
        }


def present(key: str, asked: str, found: str, *links: Link) -> EvidenceLine:
    """A line with evidence."""
    return EvidenceLine(
        key=key, asked=asked, standing=Standing.PRESENT, found=found, links=tuple(links)
    )


def missing(key: str, asked: str, found: str) -> EvidenceLine:
    """A line without; `found` says what would make it."""
    return EvidenceLine(key=key, asked=asked, standing=Standing.MISSING, found=found)


def on_record(
    key: str, asked: str, found: str, numbers: Iterable[int], otherwise: str
) -> EvidenceLine:
    """Present where there are records of it, else missing."""
    links = tuple(map(to_record, numbers))
    return present(key, asked, found, *links) if links else missing(key, asked, otherwise)


class Section(NamedTuple):
    """Lines under one heading."""

    title: str
    lines: tuple[EvidenceLine, ...]


@dataclass(frozen=True)
class EvidenceDocument:
    """A page of lines.

    Args:
        name: of its file, without ending.
    """

    name: str
    title: str
    about: str
    sections: tuple[Section, ...]

    @property
    def lines(self) -> Iterator[EvidenceLine]:
        for section in self.sections:
            yield from section.lines

    @property
    def counts(self) -> dict[str, int]:
        """How many lines there are of each standing."""
        found = Counter(line.standing for line in self.lines)
        return {each.value: found[each] for each in Standing}

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        sections = [
            {"title": each.title, "lines": [line.to_dict() for line in each.lines]}
            for each in self.sections
        ]
        return {"name": self.name, "title": self.title, "sections": sections}


@dataclass(frozen=True)
class Statements:
    """What somebody states, by the keys of lines.

    Args:
        stated_by: who; stands beside each of them.
        asked: every key that was asked for so far, with its question.
    """

    stated_by: str = ""
    says: Mapping[str, str] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def read(cls, path: Path | None) -> Self:
        """From a file like the one that `to_toml` writes; empty statements are none."""
        if path is None:
            return cls()
        try:
            content = parse_toml(read_file(path, LARGEST_TEXT).decode())
        except ValueError as error:
            raise InvalidInput(f"{path}: {error}") from None
        says = content.pop("says", {})
        who = content.pop("stated_by", "")
        texts = isinstance(says, dict) and all(isinstance(each, str) for each in says.values())
        if content or not texts or not isinstance(who, str):
            raise InvalidInput(
                f"{path}: expected stated_by, a text, and a table [says] of texts by key"
            )
        given = {key: text for key, text in says.items() if text.strip()}
        if given and not who.strip():
            raise InvalidInput(f"{path}: stated_by is empty: say who states this")
        return cls(who.strip(), given)

    def line(self, key: str, asked: str, common: str = "") -> EvidenceLine:
        """A line that nobody but the people in charge can fill.

        Args:
            common: the key of what holds wherever this one says nothing.
        """
        self.asked[common or key] = asked
        self.asked[key] = asked
        found = self.says.get(key) or self.says.get(common, "")
        return EvidenceLine(
            key=key,
            asked=asked,
            standing=Standing.PRESENT if found else Standing.TO_STATE,
            found=found,
            stated_by=self.stated_by if found else "",
        )

    def check_known(self) -> None:
        """Refuse a key that nothing asks for: a mistyped one would stay blank.

        One about a decision that has no page this time is known all the same.
        """
        unknown = sorted(
            key
            for key in set(self.says) - set(self.asked)
            if _OF_DECISION.sub("decision", key) not in self.asked
        )
        if unknown:
            raise InvalidInput(
                f"statements: nothing asks for {', '.join(unknown)}; statements.toml of an output "
                "lists all keys"
            )

    def to_toml(self) -> str:
        """All that is asked for, with what was stated."""
        lines = [
            "# What only you can state. Fill in, and pass the file with --statements.",
            f"stated_by = {json.dumps(self.stated_by)}",
            "",
            "[says]",
        ]
        for key, asked in self.asked.items():
            said = json.dumps(self.says.get(key, ""))
            lines += [f"# {asked}", f"{json.dumps(key)} = {said}"]
        return "\n".join(lines) + "\n"
