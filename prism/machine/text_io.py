"""Reading of untrusted text, and writing of JSON and CSV: equal values give equal text."""

import csv
import json
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

from prism.config import short_repr

LARGEST = 2**60  # Whole numbers in a file are below it.


def canonical_json(value: Any, indent: int | None = None) -> str:
    """JSON with sorted keys: equal values give equal text."""
    return json.dumps(value, sort_keys=True, indent=indent, ensure_ascii=False, allow_nan=False)


def parse_json(text: str) -> Any:
    """The value of untrusted JSON; a ValueError where `canonical_json` could not have written it."""
    try:
        value = json.loads(text)
        canonical_json(value).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def typed(kind: Any, value: Any, name: str = "it") -> Any:
    """A value of untrusted JSON as an annotation has it: dataclasses from objects, tuples from lists.

    Whole numbers must be in 0..2^60 − 1, except seeds. `True` is no number, and 1 is no float. Anything else is a
    ValueError, whose sentence names the key, or for the whole value `name`.
    """
    origin, of = get_origin(kind) or kind, get_args(kind)
    if kind is Any:
        return value
    if is_dataclass(kind):
        hints, given = get_type_hints(kind), typed(dict, value, name)
        needed = {part.name for part in fields(kind) if part.default is MISSING}
        for problem, keys in (("missing", needed - given.keys()), ("unknown", given.keys() - hints.keys())):
            if keys:
                raise ValueError(f"'{min(keys)}' is {problem}")
        return origin(**{key: typed(hints[key], item, key) for key, item in given.items()})
    is_right = type(value) is (list if origin is tuple else origin)
    if is_right and kind is int and name != "seed":
        is_right = 0 <= value < LARGEST
    if is_right and origin is tuple:
        is_right = of[-1] is ... or len(value) == len(of)
    if not is_right:
        raise ValueError(f"'{name}' is {short_repr(value)}")
    if origin is dict and of:
        return {key: typed(of[1], item, name) for key, item in value.items()}
    return tuple(typed(of[0], item, name) for item in value) if origin is tuple else value


def as_text(name: str) -> str:
    """The name of a file, or a word of a command line, with bytes that are not UTF-8 as escapes."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV; None is an empty cell."""
    lines: list[str] = []
    file: Any = SimpleNamespace(write=lines.append)
    # The writer quotes a carriage return only where lines end with one.
    csv.writer(file, lineterminator="\r\n").writerows([columns, *rows])
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


def first_difference(found: dict[str, Any], wanted: dict[str, Any], prefix: str = "") -> str:
    """`its a.b is 1, not 2` for the first key at which two nested tables differ; an option by its flag."""
    for key in sorted(found.keys() | wanted.keys()):
        old, new = found.get(key), wanted.get(key)
        if old != new:
            if isinstance(old, dict) and isinstance(new, dict):
                return first_difference(old, new, f"{prefix}{key}.")
            # Options that files leave out have their defaults.
            name, nothing = f"{prefix}{key}", "None"
            if prefix == "config.":
                name, nothing = f"--{key.replace('_', '-')}", "the default"
            old, new = (nothing if one is None else f"{one!r:.200}" for one in (old, new))
            return f"its {name} is {old}, not {new}"
    return "nothing differs"


def printable(text: str) -> str:
    """The text with line breaks, and what a terminal or browser could obey or not show, as their escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def reason(error: Exception) -> str:
    """First line of an error's message, for use in a sentence, without errno and file; else the type's name."""
    text = getattr(error, "strerror", None) or "".join(str(error).splitlines()[:1])
    return text[:1].lower() + text[1:].rstrip(".") or type(error).__name__


MAX_TEXT_BYTES = 2**28
"""Largest file that is read as text; the longest official list has 30 MB."""


def read_text(path: Path) -> str:
    """The text of an untrusted file; a ValueError where it is too large, or is not UTF-8."""
    with path.open("rb") as file:
        data = file.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise ValueError(f"it is larger than {MAX_TEXT_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
