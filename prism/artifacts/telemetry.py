"""Telemetry: the record of a condensation, one JSON object on each line of a file.

Only telemetry records the clock and the host, so that the set itself is reproducible. `docs/formats.md` describes
each kind of record.
"""

import os
from pathlib import Path
from typing import Any

from prism.errors import DivergedError
from prism.machine.files import beside, writing
from prism.machine.text_io import canonical_json


def telemetry_path(output: str | Path) -> Path:
    """The telemetry file of a condensed set, beside it."""
    return beside(Path(output), "{}.telemetry.jsonl")


class TelemetryWriter:
    """Writer of records to a telemetry file, of which it keeps the bytes that the last checkpoint counted."""

    def __init__(self, path: Path, kept_bytes: int = 0) -> None:
        self.path = path
        with writing(path):
            self._file = path.open("ab")
            self._file.truncate(min(kept_bytes, os.fstat(self._file.fileno()).st_size))

    def write(self, kind: str, **values: Any) -> None:
        """Write a record, which is on disk after the next `sync`; DivergedError if a number is not finite."""
        try:
            line = canonical_json({"kind": kind, **values}).encode() + b"\n"
        except ValueError:
            strange = {key: value for key, value in values.items() if str(value) in ("nan", "inf", "-inf")}
            said = f"the {kind} of iteration {values.get('iteration')} is not finite: {strange or 'a list'}"
            raise DivergedError(f"{said}. Look at the objective and the network.") from None
        with writing(self.path):
            self._file.write(line)

    def sync(self) -> int:
        """Put every record on disk; return the file's length in bytes."""
        with writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file; OutputError if the disk has no room for the buffered records."""
        with writing(self.path):
            self._file.close()
