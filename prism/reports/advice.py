"""Advice: what a page concludes from its rows, and the command to go on with."""

import operator
import shlex
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Any

from prism.artifacts.results import HEADINGS, SEEDS, percent
from prism.condensation.options import METHODS, CondenseConfig
from prism.config import Options, as_arguments, described
from prism.evaluation.options import EvaluateConfig, RetrieveConfig
from prism.reports.alike import Alike, best_of, lead_over_floor
from prism.reports.rows import Row, build_rows
from prism.reports.sources import Loaded
from prism.reports.text import counted, in_bytes
from prism.selection.options import SELECTIONS, SelectConfig

OWN_OPTIONS = {"train_vpc", "seed"}
"""Options of a result that its floor and its ceiling do not share."""


def conclusion_of(rows: Sequence[Row], together: Sequence[Alike] = ()) -> str:
    """The best set of a group, where it lies between floor and ceiling, and what it costs; empty without a set.

    Where sets were made alike, the best of them would be the luckiest: they count by their mean.
    """
    if best := best_of(together):
        return _conclusion_of_alike(best, together, HEADINGS[rows[0].metric])
    sets = [row for row in rows if not row.role]
    if not sets:
        return ""
    best = max(sets, key=lambda row: row.lead[0])
    places = _places(best.lead[0], [(row.role, row.lead[0]) for row in rows if row.network == best.network])
    where = f", {' and '.join(places)}" if places else ""
    return (
        f"The best set is “{best.label}”: {HEADINGS[best.metric]} {percent(best.lead)} %{where}, for "
        f"{in_bytes(best.num_bytes)} on disk and {counted(best.clips, 'clip')} in an epoch."
    )


def _conclusion_of_alike(best: Alike, together: Sequence[Alike], heading: str) -> str:
    lead, mean = lead_over_floor(best, together), best.sample.mean
    scale = [(one.role, one.sample.mean) for one in together if one.network == best.network]
    places = [f"{lead} points over the floor"] if lead else []
    places += _places(mean, [(role, score) for role, score in scale if not (lead and role == "floor")])
    where = f", {' and '.join(places)}" if places else ""
    num_bytes = round(fmean(result.subject.num_bytes for result in best.results))
    sets = [one for one in together if not one.role and one.results[0].subject.kind == "condensed"]
    lonely = [one for one in sets if one.sample.error is None and one.sample.mean > mean]
    said = [
        f"The best sets that were made alike are “{best.label}”: {heading} {best.sample.in_percent} %, mean ± "
        f"standard error over sets{where}, for {in_bytes(num_bytes)} on disk and "
        f"{counted(best.budget[1], 'clip')} in an epoch."
    ]
    if lonely:
        one = max(lonely, key=lambda one: one.sample.mean)
        said.append(
            f"“{one.label}” has {one.sample.in_percent} %, but is one set, which says little of the next one."
        )
    return " ".join(said)


def _places(score: float, scale: Sequence[tuple[str, float]]) -> list[str]:
    """Where a score lies beside the floors and the ceilings of a scale."""
    places = []
    for role, word, lies_so in (("floor", "above", operator.gt), ("ceiling", "below", operator.lt)):
        if scores := [other for its_role, other in scale if its_role == role]:
            no = "" if lies_so(score, max(scores)) else "not "
            places.append(f"{no}{word} the {role} ({100 * max(scores):.1f} %)")
    return places


def next_command(loaded: Sequence[Loaded], rows: Sequence[Row]) -> str:
    """The command to go on with: for the floor or ceiling that a group lacks, else for the set of another seed.

    Empty where no command makes another set like the best one: it is of a list or of another store, or was made
    without PRISM.
    """
    roles, best = {row.role for row in rows}, max(rows, key=lambda row: (not row.role, row.lead[0]))
    item = next(item for item in loaded if build_rows([item.result]) == [best])
    store = item.locate(item.result.data.path)
    if {"floor", "ceiling"} <= roles:
        subject = item.result.subject
        made, method = subject.config, subject.method
        is_ours = METHODS.is_name(method) or SELECTIONS.is_name(method)
        if not (subject.has_seed and is_ours) or subject.made_from:
            return ""
        is_selected = "iterations" not in made
        name, config = ("select", SelectConfig) if is_selected else ("condense", CondenseConfig)
        namesakes = [one.result.subject.config for one in loaded if one.result.label == best.label]
        own = _seeds_that_differ(namesakes, made)
        seeds = [some.get(key) for some in namesakes for key in own]
        seed = max((seed for seed in seeds if type(seed) is int), default=0) + 1
        like = [
            *_options(made, config, own),
            *(word for key in own for word in (f"--{key.replace('_', '-')}", seed)),
        ]
        return _command(name, store, "-o", store.parent / f"set-{seed}.safetensors", *like)
    verb, config = ("evaluate", EvaluateConfig) if best.task == "classification" else ("retrieve", RetrieveConfig)
    # A ceiling has no number of clips that a set could be given.
    vpc = 1 if best.role == "ceiling" else max(1, best.clips // best.num_classes)
    name, part = ("ceiling", []) if "floor" in roles else ("floor", ["--train-vpc", vpc])
    like, output = _options(item.result.config, config, OWN_OPTIONS), item.path.parent / f"{name}.json"
    return _command(verb, "--train", store, "--data", store, *part, "-o", output, *like)


def _seeds_that_differ(namesakes: Sequence[Mapping[str, Any]], made: Mapping[str, Any]) -> list[str]:
    """The seeds that the next set needs anew: where sets had others, and where `seed` alone draws nothing."""
    method = made.get("method")
    draws_by_network = method in list(SELECTIONS.registry) and SELECTIONS.resolve(method)[0].needs_embeddings
    return [
        key
        for key in SEEDS
        if key == "seed"
        or (key == "embedder_seed" and draws_by_network)
        or (key in made and len({str(some.get(key)) for some in namesakes}) > 1)
    ]


def _options(found: Mapping[str, Any], config: type[Options], own: Collection[str]) -> list[str]:
    """The options of a file that differ from the defaults, but for a run's own, as a command line gives them."""
    known = {key: field.default for key, field in described(config).items() if key not in own}
    return as_arguments({key: value for key, value in found.items() if key in known and value != known[key]})


def _command(*words: object) -> str:
    return shlex.join(map(str, ("prism", *words)))
