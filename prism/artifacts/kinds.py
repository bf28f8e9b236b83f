"""What lies at a path, by its first bytes: for errors that say what a file is, and for `prism info`."""

import codecs
from pathlib import Path
from typing import Any

from prism.errors import ArtifactError

OTHER = "a file that is not PRISM's"
FIRST_BYTES = 2**16

STORE, SET, RESULT, RANKING = "a clip store", "a condensed set", "a result", "a ranking"
TELEMETRY, EXPORT, FOLDER = "the telemetry of a condensed set", "a folder of prism export", "a folder"
TENSORS, JSON = "a safetensors file", "JSON"
"""Files of these two may be a damaged or a stranger's set, and result or ranking."""


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
        names = {b'"prism-result"': RESULT, b'"prism-ranking"': RANKING, b'"kind": "start"': TELEMETRY}
        return next((kind for name, kind in names.items() if name in start), JSON)
    if not start:
        return "an empty file"
    try:
        # In parts, so that a character which is cut off at the end is none that is wrong.
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return OTHER
    return OTHER if b"\0" in start else "text"


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
