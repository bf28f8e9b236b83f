"""Notes: the sentences below a table that a reader must know before comparing its rows."""

from collections.abc import Sequence

from prism.artifacts.estimates import warn_versions
from prism.artifacts.results import TESTS, Result, percent
from prism.config import described
from prism.evaluation.options import EvaluateConfig
from prism.evaluation.protocols import WANG2024
from prism.reports.tables import network_of, role_of
from prism.reports.text import listed, sentence

OWN_KEYS = {"model", "width", "hidden", "protocol", "seed", "seeds", "train_vpc"}
"""Options of an evaluation that describe the row itself and may differ between rivals; the protocol never does."""
STORED_CLIPS = (
    "Stored clips: held by the set. Where they are more than the clips of an epoch, each epoch shows a random "
    "subset of them (Okanovic et al., arXiv 2305.18424)."
)
HARDWARE = ("processor", "gpu", "threads")


def notes_on(results: Sequence[Result]) -> list[str]:
    """How to read the numbers of results that may be compared, and how they differ beside the set."""
    split = results[0].data.split
    machines = {tuple(str(one.provenance.get(key)) for key in HARDWARE) for one in results}
    seen = "networks may have been trained on, and settings" if split == "train" else "settings may have been"
    spread = []
    if any(one.subject.kind == "condensed" for one in results):
        spread.append("a set was made once, so its deviation is of training alone")
    if any(one.subject.method == "subset" for one in results):
        spread.append("a subset is drawn anew for each seed, so its deviation holds the draw, too")
    has_takes = any(one.subject.stored_clips != one.subject.num_videos for one in results)
    return [
        *_scores(results),
        *([sentence(f"{'; '.join(spread)}.")] if spread else []),
        *cautions_on(results),
        "Clips: shown in an epoch; trained on: over all epochs. Key-frames: stored (for each of those clips).",
        *([STORED_CLIPS] if has_takes else []),
        "float32 counts every stored frame as float32, as the paper does; % of full is its share of the same "
        "count for all training clips.",
        *([] if split in TESTS else [f"Scored on the {split} split, which {seen} chosen on."]),
        *(["Times were measured on different hardware."] if len(machines) > 1 else []),
        *filter(None, [warn_versions("The rows", results)]),
    ]


def cautions_on(results: Sequence[Result]) -> list[str]:
    """Why the numbers of a group may mislead."""
    low = [
        f"Caution: the ceiling “{ceiling.label}” ({percent(ceiling.summary())} %) lies below the floor "
        f"“{floor.label}” ({percent(floor.summary())} %), so it is none: train on all clips for more --epochs, or "
        "with another --lr."
        for ceiling in results
        for floor in results
        if (role_of(ceiling), role_of(floor)) == ("ceiling", "floor")
        and network_of(ceiling) == network_of(floor)
        and ceiling.summary()[0] < floor.summary()[0]
    ]
    own = [f"Caution: “{one.label}”: {one.caution}" for one in results if one.caution]
    return [*own, *low, *_different_options(results)]


def _scores(results: Sequence[Result]) -> list[str]:
    text = "Accuracies are in percent, after the last epoch: mean ± sample standard deviation (networks trained)."
    few = min(len(one.runs) for one in results) < 5
    notes = [f"{text} With so few networks the deviation itself is rough." if few else text]
    if results[0].protocol == WANG2024.name:
        notes.append(
            "What earlier work prints for condensed sets under this protocol is the best, on the test clips, of "
            "about ten such means along a condensation; here each is of one set."
        )
    return notes


def _different_options(results: Sequence[Result]) -> list[str]:
    notes = []
    # A result records these only where they differ from their defaults.
    rare = {name: field.default for name, field in described(EvaluateConfig).items() if field.is_rare}
    for key in sorted({key for one in results for key in one.config} - OWN_KEYS):
        users: dict[str, set[str]] = {}
        for one in results:
            users.setdefault(str(one.config.get(key, rare.get(key, "none"))), set()).add(one.label)
        if len(users) > 1:
            by_value = [
                f"{value} ({', '.join(f'“{n}”' for n in sorted(names))})" for value, names in sorted(users.items())
            ]
            notes.append(f"Caution: the rows were trained with different {key}: {listed(by_value)}.")
    return notes
