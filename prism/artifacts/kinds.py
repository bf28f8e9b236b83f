"""Kinds of files by their first bytes."""

from pathlib import Path
from typing import Any

from prism.errors import ArtifactError

FIRST_BYTES = 2**16
STORE, SET, RESULT = "a clip store", "a condensed set", "a result"
TENSORS, JSON = "a safetensors file", "JSON"
"""Kinds that may turn out to be a set or a result, damaged or third-party."""


def kind_of(path: Path) -> str:
    """Kind of a file by its first bytes, or of a folder by its files, as a noun that follows `'runs/set' is`."""
    if not path.exists():
        raise ArtifactError(f"'{path}' does not exist.")
    if path.is_dir():
        return STORE if (path / "store.json").is_file() else "a folder"
    if not path.is_file():
        return "a pipe or a device"
    with path.open("rb") as file:
        start = file.read(FIRST_BYTES)
    # A set begins with the length of its header in eight bytes; unlike the " {" of JSON, they contain a zero.
    if start[8:9] == b"{" and b"\0" in start[:8]:
        return SET if b"prism-condensed-set" in start else TENSORS
    if start.lstrip().startswith(b"{"):
        return RESULT if b'"prism-result"' in start else JSON
    return "a file of another kind"


def check_format(content: Any, name: str, version: int, path: Path) -> None:
    """Raise an ArtifactError if a file's content is of another format, or another version of the format."""
    if not isinstance(content, dict) or content.get("format") != name:
        raise ArtifactError(f"'{path}' is not of the format '{name}'.")
    if (found := content.get("version")) != version:
        said = f"'{path}' has format version {found!r}, but this PRISM reads {version}."
        raise ArtifactError(f"{said} Update prism-condense, or make it again.")
