"""What lies at a path, by its first bytes: for errors that say what a file is, for `prism info`, for outputs."""

import codecs
import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prism.errors import ArtifactError, OutputError
from prism.machine.files import check_output_file

OTHER = "a file that is not PRISM's"
FIRST_BYTES = 2**20

STORE, SET, RESULT = "a clip store", "a condensed set", "a result"
TELEMETRY, PAGE = "the telemetry of a condensed set", "a page of prism report"
EXPORT, FOLDER = "a folder of prism export", "a folder"
TENSORS, JSON = "a safetensors file", "JSON"
"""Files of these two may be a damaged or a third-party set, and result."""
OWN_FILES = (SET, RESULT, TELEMETRY, PAGE)
"""The files that only PRISM writes."""


def kind_of(path: Path) -> str:
    """A noun for what lies at a path that exists, for `'runs/set' is …`; what follows may still be damaged.

    Raises:
        OSError: it cannot be read.
    """
    if path.is_dir():
        if (path / "store.json").is_file():
            return STORE
        return EXPORT if (path / "prism.json").is_file() and (path / "classes.txt").is_file() else FOLDER
    if not path.is_file():
        return "a pipe or a device"
    with path.open("rb") as file:
        start = file.read(FIRST_BYTES)
    # A set begins with the length of its header in eight bytes, which may look like " {" but for its zeros.
    if start[8:9] == b"{" and b"\0" in start[:8]:
        return SET if b"prism-condensed-set" in start else TENSORS
    if start.lstrip().startswith(b"{") and b"\0" not in start:
        names = {b'"prism-result"': RESULT, b'"kind": "start"': TELEMETRY}
        return next((kind for name, kind in names.items() if name in start), JSON)
    if start.startswith(b"<!DOCTYPE html>") and b"<title>PRISM report: " in start:
        return PAGE
    if not start:
        return "an empty file"
    try:
        # In parts, so that a character which is cut off at the end is none that is wrong.
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return OTHER
    return OTHER if b"\0" in start else "text"


def check_output_kind(path: Path, kind: str, overwrite: bool = False, reads: Iterable[object] = ()) -> None:
    """Like `check_output_file`; a file that PRISM knows to be of another kind is not replaced, either.

    Args:
        path: the output.
        kind: what is to be written, with its article.
        overwrite: whether one that is there may be replaced.
        reads: what it is made of.

    Raises:
        OutputError: the path is a folder, an input or a file of another kind, exists, or cannot be written.
    """
    check_output_file(path, overwrite, reads)
    # What cannot be read may be replaced, as what is nobody's.
    with contextlib.suppress(OSError):
        if path.exists() and (found := kind_of(path)) in OWN_FILES and found != kind:
            raise OutputError(
                f"output '{path}' is {found}, not {kind}, so it is not overwritten. Choose another path."
            )


def check_format(
    content: Any, name: str, version: int, error: type[ArtifactError], foreign: str, what: str, remedy: str = ""
) -> None:
    """Refuse a file of another format, or of another version of this one.

    Args:
        content: what the file says of itself.
        name: of the format.
        version: that this PRISM reads.
        error: raised where it differs.
        foreign: the subject of the sentence for another format, as `'runs/set' is not a clip store: it`.
        what: the subject of the sentence for another version.
        remedy: what helps beside an update.
    """
    if not isinstance(content, dict) or content.get("format") != name:
        raise error(f"{foreign} does not say format '{name}'.")
    if content.get("version") != version:
        raise error(
            f"{what} has format version {content.get('version')!r}, but this PRISM reads {version}. "
            f"Update prism-condense{remedy}."
        )
