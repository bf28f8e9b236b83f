"""Curves: the telemetry of a condensation as arrays, ready to be drawn."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism.artifacts.results import LARGEST
from prism.artifacts.telemetry import QUANTILES, Telemetry
from prism.errors import ArtifactError

Array = NDArray[np.float64]
LARGEST_DRAWN = 1e100
"""Axes of larger numbers cannot be computed in float64."""


@dataclass(frozen=True)
class Curves:
    """The course of one condensation.

    Attributes:
        steps: (n, 4) iteration, loss, between-class energy (0 where it is not known), mean key-frames per video.
        cosines: (m, 1 + q) iteration and the quantiles of the candidates' cosines.
        insertions: (k, 2) iteration and frame of every inserted key-frame.
        unseen: (u, 3) iteration, alignment and nearest share, on networks that the videos are not trained on.
        seconds: duration, or None if the run did not end.
        peak_memory_bytes: of the run, or None if it did not end.
    """

    steps: Array
    cosines: Array
    insertions: Array
    unseen: Array
    seconds: float | None = None
    peak_memory_bytes: int | None = None
    hardware: str = ""

    @classmethod
    def read(cls, telemetry: Telemetry) -> "Curves":
        """Take the numbers out of telemetry.

        Raises:
            ArtifactError: a record lacks a value or holds something that is not a number.
        """
        try:
            steps = telemetry.of_kind("step")
            cosines = [[r["iteration"], *r["quantiles"]] for r in telemetry.of_kind("cosines")]
            insertions = [[r["iteration"], r["frame"]] for r in telemetry.of_kind("insertion")]
            unseen = [[r["iteration"], r["alignment"], r["nearest"]] for r in telemetry.of_kind("unseen")]
            end = (telemetry.of_kind("end") or [{}])[-1]
            start = (telemetry.of_kind("start") or [{}])[0]
            seconds, memory = end.get("seconds"), end.get("peak_memory_bytes")
            return cls(
                _table([[r["iteration"], r["loss"], r["between_class"] or 0.0, r["keyframes"]] for r in steps], 4),
                _table(cosines, 1 + len(QUANTILES)),
                _table(insertions, 2),
                _table(unseen, 3),
                None if seconds is None else _finite(seconds),
                None if memory is None else int(_finite(memory)),
                str(start.get("gpu") or start.get("processor") or ""),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArtifactError(f"the telemetry holds a record that cannot be drawn: {error!r}.") from None


def _table(rows: list[list[Any]], width: int) -> Array:
    table = np.array(rows, dtype=np.float64).reshape(-1, width)
    if len(table) != len(rows) or not (np.abs(table) < LARGEST_DRAWN).all():
        raise ValueError("a value is missing or not finite")
    if len(table) and not (table[:, 0].min() >= 0 and table[:, 0].max() < LARGEST):
        raise ValueError("an iteration is out of range")
    return table


def _finite(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError("a value is not finite")
    return number


def binned(x: Array, y: Array, bins: int = 300) -> tuple[Array, Array, Array, Array]:
    """A long curve made short: centre, median, lowest and highest value of each run of neighbouring points."""
    parts = np.array_split(np.arange(len(x)), min(bins, len(x)))
    table = np.array([(x[part].mean(), np.median(y[part]), y[part].min(), y[part].max()) for part in parts])
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]
