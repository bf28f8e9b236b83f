"""Advice: what a page concludes from its rows, and the command to go on with."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from prism.artifacts.results import HEADINGS, percent
from prism.condensation.options import CondenseConfig
from prism.config import Options, as_arguments, described
from prism.evaluation.options import EvaluateConfig, RetrieveConfig
from prism.reports.alike import Alike, alike, best_of, lead_over_floor
from prism.reports.rows import Row
from prism.reports.sources import Loaded
from prism.reports.text import counted, in_bytes
from prism.selection.options import SelectConfig

OWN_OPTIONS = {"train_vpc", "seed"}
"""Options of a result that its floor and its ceiling do not share."""


def conclusion_of(rows: Sequence[Row], together: Sequence[Alike] = ()) -> str:
    """The best set of a group, where it lies between floor and ceiling, and what it costs; empty without a set.

    Where sets were made alike, the best of them would be the luckiest: they count by their mean.
    """
    if best := best_of(together):
        lead = lead_over_floor(best, together)
        over = f", {lead} points over the floor" if lead else ""
        subject = best.results[0].subject
        return (
            f"The best sets that were made alike are “{best.label}”: {HEADINGS[rows[0].metric]} "
            f"{best.sample.in_percent} %, mean ± standard error over sets{over}, for "
            f"{in_bytes(subject.num_bytes)} on disk and {counted(subject.num_videos, 'clip')} in an epoch."
        )
    sets = [row for row in rows if not row.role]
    if not sets:
        return ""
    best = max(sets, key=lambda row: row.lead[0])
    places = []
    for role, near, far in (("floor", "above", "not above"), ("ceiling", "not below", "below")):
        scores = [row.lead[0] for row in rows if (row.role, row.network) == (role, best.network)]
        if scores:
            places.append(f"{near if best.lead[0] > max(scores) else far} the {role} ({100 * max(scores):.1f} %)")
    where = f", {' and '.join(places)}" if places else ""
    return (
        f"The best set is “{best.label}”: {HEADINGS[best.metric]} {percent(best.lead)} %{where}, for "
        f"{in_bytes(best.num_bytes)} on disk and {counted(best.clips, 'clip')} in an epoch."
    )


def next_command(loaded: Sequence[Loaded], rows: Sequence[Row]) -> str:
    """The command to go on with: for the floor or ceiling that a group lacks, else for the set of another seed."""
    roles, best = {row.role for row in rows}, max(rows, key=lambda row: (not row.role, row.lead[0]))
    item = next(item for item in loaded if (item.result.group, item.result.label) == (best.group, best.label))
    made_alike = next(one for one in alike([item.result for item in loaded]) if item.result in one.results)
    store = item.locate(item.result.data.path)
    if {"floor", "ceiling"} <= roles:
        made = item.result.subject.config
        is_selected = bool(made) and "iterations" not in made
        name, config = ("select", SelectConfig) if is_selected else ("condense", CondenseConfig)
        seeds = [result.subject.config.get("seed") for result in made_alike.results]
        seed = max((seed for seed in seeds if type(seed) is int), default=0) + 1
        like = [*_options(made, config, {"seed"}), "--seed", seed]
        return _command(name, store, "-o", store.parent / f"set-{seed}.safetensors", *like)
    verb, config = ("evaluate", EvaluateConfig) if best.task == "classification" else ("retrieve", RetrieveConfig)
    vpc = max(1, best.clips // best.num_classes)
    name, part = ("ceiling", []) if "floor" in roles else ("floor", ["--train-vpc", vpc])
    like, output = _options(item.result.config, config, OWN_OPTIONS), item.path.parent / f"{name}.json"
    return _command(verb, "--train", store, "--data", store, *part, "-o", output, *like)


def _options(found: Mapping[str, Any], config: type[Options], own: Collection[str]) -> list[str]:
    """The options of a file that differ from the defaults, but for a run's own, as a command line gives them."""
    known = {key: field.default for key, field in described(config).items() if key not in own}
    return as_arguments({key: value for key, value in found.items() if key in known and value != known[key]})


def _command(*words: object) -> str:
    return shlex.join(map(str, ("prism", *words)))
