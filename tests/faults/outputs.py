"""What of an output two runs of one command share: every byte, but for the volatile fields."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VOLATILE = {
    *("commit", "command", "host", "system", "processor", "threads", "gpu", "date"),
    *("seconds", "peak_memory_bytes"),
}
"""The fields of results, telemetry and tables that depend on the clock, the machine or the user's words."""


def lasting(path: Path, without: Sequence[str] = ()) -> Any:
    """The bytes of a file, or its values where it has volatile ones; of a folder, those of all its files by name.

    Args:
        path: a file or folder.
        without: patterns of files in a folder that do not count.
    """
    if path.is_dir():
        files = (file for file in sorted(path.rglob("*")) if file.is_file())
        return {str(file.relative_to(path)): lasting(file) for file in files if not any(map(file.match, without))}
    values = _values(path)
    kept = _kept(values)
    return path.read_bytes() if kept == values else kept


def _values(path: Path) -> Any:
    match path.suffix:
        case ".json":
            return json.loads(path.read_text(encoding="utf-8"))
        case ".jsonl":
            # Without a last line that was cut off.
            return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        case ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                return list(csv.DictReader(file))
        case _:
            return None


def _kept(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _kept(value) for name, value in values.items() if name not in VOLATILE}
    return [_kept(value) for value in values] if isinstance(values, list) else values
