"""What a reader must know before comparing the rows of a table."""

from collections.abc import Sequence
from typing import Any

from prism.artifacts.results import Result
from prism.evaluation.protocols import CLEAN, PROTOCOLS
from prism.reports.rows import Row
from prism.reports.text import in_shares, listed

OWN_KEYS = {"model", "width", "hidden", "protocol", "seed", "seeds", "train_vpc"}
"""Options of an evaluation that describe the row itself and may differ between rivals; the protocol never does."""
HARDWARE = ("processor", "gpu", "threads")


def notes_on(results: Sequence[Result], rows: Sequence[Row]) -> list[str]:
    """How to read a group's numbers, and in what its rows differ beside the set."""
    return [
        *_scores(rows),
        *_spread(results),
        *(f"Caution: of “{result.label}” {result.caution}" for result in results if result.caution),
        "Clips: shown in an epoch; trained on: over all epochs. Key-frames: stored (for each of those clips).",
        "float32 counts every stored frame as float32, as the paper does; % of full is its share of the same "
        "count for all training clips.",
        *_split(rows),
        *_different_options(results),
        *_different_hardware(results),
    ]


def _scores(rows: Sequence[Row]) -> list[str]:
    few = min(row.lead[2] for row in rows)
    what = "Recalls" if rows[0].task == "retrieval" else "Accuracies"
    text = f"{what} are in percent, {_when(rows[0])}: mean ± sample standard deviation (networks trained)."
    notes = [f"{text} With so few networks the deviation itself is rough." if few < 5 else text]
    return [*notes, _recall(rows[0])] if rows[0].task == "retrieval" else notes


def _when(row: Row) -> str:
    checkpoints = PROTOCOLS.get(row.protocol, CLEAN).num_checkpoints
    if checkpoints == 1:
        return "after the last epoch"
    return (
        f"each the best of up to {checkpoints} epochs, chosen on these very clips as protocol {row.protocol} "
        "does, which lifts guessing above chance, too"
    )


def _recall(row: Row) -> str:
    return (
        "R@K is the share of clips that have one of their class among the K real training clips whose embeddings "
        f"have the largest cosine; K training clips drawn at random score {in_shares(row.chance.values())}."
    )


def _spread(results: Sequence[Result]) -> list[str]:
    notes = []
    if any(result.subject.kind == "condensed" for result in results):
        notes.append("A set was made once, so its deviation is that of training alone")
    if any(result.subject.method == "subset" for result in results):
        notes.append("a subset is drawn anew for each seed, so its deviation holds the draw, too")
    return [f"{'; '.join(notes)[:1].upper()}{'; '.join(notes)[1:]}."] if notes else []


def _split(rows: Sequence[Row]) -> list[str]:
    chosen_on = rows[0].split
    return (
        []
        if chosen_on in ("test", "test-random")
        else [f"Scored on the {chosen_on} split, which settings may have been chosen on."]
    )


def _different_options(results: Sequence[Result]) -> list[str]:
    keys = sorted({key for result in results for key in result.config} - OWN_KEYS)
    return [f"Caution: {note}" for key in keys if (note := _difference(key, results))]


def _difference(key: str, results: Sequence[Result]) -> str:
    users: dict[str, set[str]] = {}
    for result in results:
        users.setdefault(_value(result.config.get(key)), set()).add(result.label)
    if len(users) == 1:
        return ""
    said = [
        f"{value} ({', '.join(f'“{label}”' for label in sorted(labels))})"
        for value, labels in sorted(users.items())
    ]
    return f"the rows were trained with different {key}: {listed(said)}."


def _value(value: Any) -> str:
    return "none" if value is None else str(value)


def _different_hardware(results: Sequence[Result]) -> list[str]:
    machines = {tuple(_value(result.provenance.get(key)) for key in HARDWARE) for result in results}
    return ["Times were measured on different hardware."] if len(machines) > 1 else []
