"""Who a record is: one spelling of an identifier, wherever it comes from.

A person's budget hangs on the identifier, so two spellings of one identifier would be two budgets.
Files spell alike things differently: a column of integers becomes floats as soon as one cell is
empty, a CSV file keeps blanks, two keyboards write the same letter in two ways. Everything that
names a record goes through `canonical_identifier`, and what names an item or a label, on which no
budget hangs, through `canonical_name`:

- integers, and floats and decimals that are whole numbers, become the digits of the integer;
- text is freed of characters that cannot be seen (controls, formats, all that Unicode says may be
  ignored), normalised (Unicode NFKC, so that a full-width `７` is 7; a name by NFC, which keeps
  it), and its blanks become single ones, none at the ends; what
  reads `7.0` is the integer 7, as programs write it that had to make room for a missing value, and
  so is `+7`; `-0` is 0;
- nothing, NaN and the words that programs write for a missing value, in upper or lower case, mean:
  no identifier;
- anything else is refused: a float with a fraction, one so large that digits are lost (also as
  text, `9007199254740992.0`), text with an exponent (`1e5`, `1.2345678E7`), a truth value, bytes, a
  date.

Case counts, and so do leading zeros of text: give identifiers in the same form everywhere. Where in
doubt two spellings become one: then two people share a budget, which is dear and safe.
"""

from __future__ import annotations

import math
import numbers
import re
import unicodedata
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from voile.core.errors import InvalidInput

LONGEST: Final = 500
"""Characters of an identifier."""
_MISSING_TYPES: Final = frozenset({"NoneType", "NAType", "NaTType"})
MISSING_WORDS: Final = frozenset(
    {"", "nan", "-nan", "none", "null", "nil", "na", "n/a", "#n/a", "#na", "<na>", "nat"}
)
"""In lower case; what programs write where nothing is, among identifiers and features alike."""
_WHOLE: Final = re.compile(r"([+-]?)([0-9]+)(\.0*)?")
_SCIENTIFIC: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+")
_UNSEEN: Final = frozenset({"Cc", "Cf"})
_IGNORABLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's Default_Ignorable_Code_Point, which Python's tables do not tell."""
_BLANK: Final = re.compile("[\u2800\U0001d159]")
"""Characters that are no spaces and look like one: the empty Braille cell, the null note head."""
_TOO_LARGE: Final = 10**LONGEST
_Form: TypeAlias = Literal["NFC", "NFKC"]


def canonical_identifier(value: Any) -> str | None:
    """The one spelling of an identifier; None for a record without one.

    Guarantees
        1. A canonical identifier is its own canonical form.
        2. One integer has one form, as an integer of any type, as a float, as a decimal and as text
           with or without a decimal point, in whatever file.
        3. Texts that are alike under Unicode NFKC have one form, or all of them none.
    """
    return _canonical(value, "NFKC")


def canonical_name(value: Any) -> str | None:
    """The one spelling of a public name: an item or a label. None for no name.

    Also how earlier versions spelled an identifier, so what they stored is found by it.
    """
    return _canonical(value, "NFC")


def _canonical(value: Any, form: _Form) -> str | None:
    if type(value).__name__ in _MISSING_TYPES:
        return None
    if isinstance(value, str):
        return _text(value, form)
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Number):
        raise _refusal(f"found a value of the type {type(value).__name__}")
    return _number(value)


def _text(value: str, form: _Form) -> str | None:
    plain = value.isascii() and value.isprintable()  # all of it can be seen, and is normal
    text = " ".join((value if plain else _seen(value, form)).split())
    if text.lower() in MISSING_WORDS:
        return None
    if len(text) > LONGEST:
        raise _refusal(f"found a text of {len(text)} characters, more than {LONGEST}")
    if not plain and any(unicodedata.category(each) == "Cs" for each in text):
        raise _refusal("found text with unpaired surrogates")
    if _SCIENTIFIC.fullmatch(text):
        raise _refusal("found text that was written as a float, which may have lost digits")
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        return text
    sign, digits, point = whole.groups()
    if point and int(digits) >= _first_inexact(1.0):
        raise _refusal("found text that was written as a float, too large to have kept its digits")
    return _signed(sign, digits)


def _seen(value: str, form: _Form) -> str:
    seen = "".join(
        each
        for each in _IGNORABLE.sub("", _BLANK.sub(" ", value))
        if each.isspace() or unicodedata.category(each) not in _UNSEEN
    )
    return unicodedata.normalize(form, seen)


def _signed(sign: str, digits: str) -> str:
    """Leading zeros count; a plus says nothing, nor a minus before zero."""
    return f"-{digits}" if sign == "-" and digits.strip("0") else digits


def _number(value: Any) -> str | None:
    if isinstance(value, numbers.Integral):
        return _digits(int(value))
    if not isinstance(value, Decimal | float | np.floating):
        raise _refusal(f"found a value of the type {type(value).__name__}")
    if value.is_nan() if isinstance(value, Decimal) else math.isnan(value):
        return None
    number: Any = value
    if not math.isfinite(number) or abs(number) >= _first_inexact(number) or number != int(number):
        raise _refusal("found a float with a fraction, or too large to have kept its digits")
    return _digits(int(number))


def _first_inexact(value: Any) -> int:
    """From here on two integers may have become one float; decimals keep theirs."""
    if isinstance(value, Decimal):
        return _TOO_LARGE
    digits = np.finfo(type(value)).nmant + 1
    return 1 << int(digits)


def _digits(number: int) -> str:
    if abs(number) >= _TOO_LARGE:
        raise _refusal(f"found an integer of more than {LONGEST} digits")
    return str(number)


def _refusal(found: str) -> InvalidInput:
    return InvalidInput(
        f"an identifier is an integer or a text, {found}; give identifiers as text everywhere"
    )
