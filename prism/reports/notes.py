"""Notes: the sentences below a table that a reader must know before comparing its rows."""

from collections.abc import Sequence
from typing import Any

from prism.artifacts.estimates import said_of_versions
from prism.artifacts.results import HEADINGS, Result, percent
from prism.config import described
from prism.evaluation.options import EvaluateConfig, RetrieveConfig
from prism.evaluation.protocols import WANG2024
from prism.reports.rows import Row
from prism.reports.text import in_shares, listed, sentence

OWN_KEYS = {"model", "width", "hidden", "protocol", "seed", "seeds", "train_vpc"}
"""Options of an evaluation that describe the row itself and may differ between rivals; the protocol never does."""
TESTS = ("test", "test-random")
"""Splits of the test videos, which settings are not chosen on."""
STORED_CLIPS = (
    "Stored clips: held by the set. Where they are more than the clips of an epoch, each epoch shows a random "
    "subset of them (Okanovic et al., arXiv 2305.18424)."
)
HARDWARE = ("processor", "gpu", "threads")


def notes_on(results: Sequence[Result], rows: Sequence[Row]) -> list[str]:
    """How to read the numbers of a group, and how its rows differ beside the set."""
    split = rows[0].split
    machines = {tuple(_value(result.provenance.get(key)) for key in HARDWARE) for result in results}
    seen = "networks may have been trained on, and settings" if split == "train" else "settings may have been"
    spread = []
    if any(result.subject.kind == "condensed" for result in results):
        spread.append("a set was made once, so its deviation is that of training alone")
    if any(result.subject.method == "subset" for result in results):
        spread.append("a subset is drawn anew for each seed, so its deviation holds the draw, too")
    return [
        *_scores(rows),
        *([sentence(f"{'; '.join(spread)}.")] if spread else []),
        *cautions_on(results, rows),
        "Clips: shown in an epoch; trained on: over all epochs. Key-frames: stored (for each of those clips).",
        *([STORED_CLIPS] if any(row.stored_clips != row.clips for row in rows) else []),
        "float32 counts every stored frame as float32, as the paper does; % of full is its share of the same "
        "count for all training clips.",
        *([] if split in TESTS else [f"Scored on the {split} split, which {seen} chosen on."]),
        *(["Times were measured on different hardware."] if len(machines) > 1 else []),
        *filter(None, [said_of_versions("The rows", results)]),
    ]


def cautions_on(results: Sequence[Result], rows: Sequence[Row]) -> list[str]:
    """Why the numbers of a group may mislead."""
    return [
        *(f"Caution: “{result.label}”: {result.caution}" for result in results if result.caution),
        *_low_ceilings(rows),
        *_different_options(results),
    ]


def _low_ceilings(rows: Sequence[Row]) -> list[str]:
    return [
        f"Caution: the ceiling “{ceiling.label}” ({percent(ceiling.lead)} %) lies below the floor "
        f"“{floor.label}” ({percent(floor.lead)} %), so it is none: train on all clips for more --epochs, or "
        "with another --lr."
        for ceiling in rows
        for floor in rows
        if (ceiling.role, floor.role) == ("ceiling", "floor")
        and ceiling.network == floor.network
        and ceiling.lead[0] < floor.lead[0]
    ]


def _scores(rows: Sequence[Row]) -> list[str]:
    row, few = rows[0], min(row.lead[2] for row in rows)
    is_retrieval = row.task == "retrieval"
    text = f"{'Recalls' if is_retrieval else 'Accuracies'} are in percent, after the last epoch: "
    text += "mean ± sample standard deviation (networks trained)."
    notes = [f"{text} With so few networks the deviation itself is rough." if few < 5 else text]
    if row.protocol == WANG2024.name:
        notes.append(
            "What earlier work prints for condensed sets under this protocol is the best, on the test clips, of "
            "about ten such means along a condensation; here each is of one set."
        )
    if is_retrieval:
        shares = in_shares(row.chance[metric] for metric in row.scores)
        notes.append(
            "R@K is the share of clips that have one of their class among the K real training clips whose "
            "embeddings have the largest cosine; K training clips drawn at random score "
            f"{shares} for {listed([HEADINGS[metric] for metric in row.scores])}."
        )
    return notes


def _different_options(results: Sequence[Result]) -> list[str]:
    notes, verb = [], RetrieveConfig if results[0].task == "retrieval" else EvaluateConfig
    # A result records these only where they differ from their defaults.
    rare = {name: field.default for name, field in described(verb).items() if field.is_rare}
    for key in sorted({key for result in results for key in result.config} - OWN_KEYS):
        users: dict[str, set[str]] = {}
        for result in results:
            users.setdefault(_value(result.config.get(key, rare.get(key))), set()).add(result.label)
        said = [
            f"{value} ({', '.join(f'“{label}”' for label in sorted(labels))})"
            for value, labels in sorted(users.items())
        ]
        if len(users) > 1:
            notes.append(f"Caution: the rows were trained with different {key}: {listed(said)}.")
    return notes


def _value(value: Any) -> str:
    return "none" if value is None else str(value)
