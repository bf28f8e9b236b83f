"""Telemetry: what happened while a set was condensed, one JSON object on each line of a file.

    {"kind": "start", …}        configuration, store, provenance
    {"kind": "step", …}         iteration, loss, between_class, keyframes, lr, seconds
    {"kind": "unseen", …}       iteration, loss, alignment, nearest on networks that the videos are not trained on
    {"kind": "cosines", …}      iteration, quantiles of the candidates' cosines
    {"kind": "insertion", …}    iteration, video, frame, cosines with the key-frame before and after
    {"kind": "end", …}          seconds, peak memory, key-frames of each video

The clock and the host belong here and nowhere else, so that the set itself is reproducible.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism.errors import DivergedError, ResultError
from prism.machine.files import beside, writing
from prism.machine.locks import hold
from prism.machine.texts import canonical_json, parse_json, read_text

TOGETHER = 64
"""Records that are written at once: alone, each costs as much as ten of them. (Measured beside a training.)"""
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def telemetry_path(output: str | Path) -> Path:
    """The telemetry file of a condensed set, beside it."""
    return beside(Path(output), "{}.telemetry.jsonl")


def check_idle(path: Path) -> None:
    """Refuse a telemetry file that another run is writing; one that is not there is no one's.

    Raises:
        BusyError: that run's process is named where the system tells it.
    """
    if path.is_file():
        # Whether it can be written is not the question.
        with contextlib.suppress(OSError), path.open("ab") as file:
            hold(file.fileno(), path)


class TelemetryWriter:
    """Appends records to a telemetry file, and keeps other runs off it until it is closed.

    Args:
        path: the file; what an interrupted run left in it stays until `keep` is called.

    Raises:
        OutputError: it cannot be written, or another run is writing it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            self._file = path.open("ab")
        self._waiting: list[dict[str, Any]] = []
        try:
            hold(self._file.fileno(), path)
        except BaseException:
            self._file.close()
            raise

    def keep(self, num_bytes: int) -> None:
        """Cut off what lies behind the first `num_bytes` bytes: it was written after the last checkpoint."""
        with writing(self.path):
            self._file.truncate(min(num_bytes, os.fstat(self._file.fileno()).st_size))

    def write(self, kind: str, **values: Any) -> None:
        """Append one record, which is written with the next ones.

        Raises:
            DivergedError: a number of one of these records is not finite.
        """
        self._waiting.append({"kind": kind, **values})
        if len(self._waiting) >= TOGETHER:
            self._write_waiting()

    def _write_waiting(self) -> None:
        records, self._waiting = self._waiting, []
        with writing(self.path):
            for record in records:
                self._file.write(_line(record))

    def sync(self) -> int:
        """Put every record on disk.

        Returns:
            The file's length in bytes, for `keep`.
        """
        self._write_waiting()
        with writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Close the file; what is still buffered and does not fit on the disk is lost with a sentence."""
        try:
            self._write_waiting()
        finally:
            with writing(self.path):
                self._file.close()


def _line(record: dict[str, Any]) -> bytes:
    try:
        return canonical_json(record).encode() + b"\n"
    except ValueError:
        spoiled = next(key for key in sorted(record) if not _is_json(record[key]))
        raise DivergedError(
            f"'{spoiled}' in the telemetry is not finite, in the record '{record['kind']}' of iteration "
            f"{record.get('iteration')}. Look at the objective and the network."
        ) from None


def _is_json(value: Any) -> bool:
    try:
        canonical_json(value)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Telemetry:
    """The records of a telemetry file, by kind."""

    records: tuple[dict[str, Any], ...]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The records of one kind, in the order of their iterations."""
        return [record for record in self.records if record.get("kind") == kind]

    @classmethod
    def load(cls, path: str | Path) -> "Telemetry":
        """Read a telemetry file; a last line that was cut off is left out.

        Raises:
            ResultError: the file is missing or not telemetry.
        """
        path = Path(path)
        try:
            lines = read_text(path).split("\n")[:-1]
            records = tuple(parse_json(line) for line in lines)
        except (OSError, ValueError) as error:
            raise ResultError(f"'{path}' is not a telemetry file: {error}.") from None
        if not all(isinstance(record, dict) for record in records):
            raise ResultError(f"'{path}' is not a telemetry file: a line is not an object.")
        return cls(records)


def seconds_to_make(path: str | Path) -> float:
    """The time that condensing the set at a path took, by the telemetry beside it; 0 where there is none."""
    try:
        return float(Telemetry.load(telemetry_path(Path(path))).of_kind("end")[-1]["seconds"])
    except (ResultError, LookupError, TypeError, ValueError, OverflowError):
        return 0.0
