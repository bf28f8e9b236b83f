"""Kinds of files by their first bytes, and JSON read into dataclasses."""

from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from prism.config import short_repr
from prism.errors import ArtifactError

FIRST_BYTES = 2**16
LARGEST = 2**60  # Whole numbers in a file are below it.
STORE, SET, RESULT = "a clip store", "a condensed set", "a result"
TENSORS, JSON = "a safetensors file", "JSON"
"""Kinds that may be a damaged or third-party set, or result."""


def kind_of(path: Path) -> str:
    """Kind of a file or folder by its first bytes alone, as a noun after `'runs/set' is`."""
    if not path.exists():
        raise ArtifactError(f"'{path}' does not exist.")
    if path.is_dir():
        return STORE if (path / "store.json").is_file() else "a folder"
    if not path.is_file():
        return "a pipe or a device"
    with path.open("rb") as file:
        start = file.read(FIRST_BYTES)
    # A set begins with the length of its header in eight bytes, which may look like " {" but for its zeros.
    if start[8:9] == b"{" and b"\0" in start[:8]:
        return SET if b"prism-condensed-set" in start else TENSORS
    if start.lstrip().startswith(b"{"):
        return RESULT if b'"prism-result"' in start else JSON
    return "a file of another kind"


def check_format(content: Any, name: str, version: int, path: Path) -> None:
    """Refuse the content of a file of another format, or of another version of it."""
    if not isinstance(content, dict) or content.get("format") != name:
        raise ArtifactError(f"'{path}' is not of the format '{name}'.")
    if (found := content.get("version")) != version:
        said = f"'{path}' has format version {found!r}, but this PRISM reads {version}."
        raise ArtifactError(f"{said} Update prism-condense, or make it again.")


def typed(kind: Any, value: Any, name: str = "it") -> Any:
    """A value of untrusted JSON as an annotation has it: dataclasses from objects, tuples from lists.

    A whole number that is no seed lies in 0..2^60. `True` is no number, and 1 is no float. Anything else is a
    ValueError, whose sentence calls the whole `name`.
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
