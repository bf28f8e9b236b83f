"""Sets that were made alike, from different seeds: their mean, its error, and by how much they lead."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prism.artifacts.estimates import (
    NO_INTERVAL,
    Estimate,
    Sample,
    runs_by_set,
    said_of_copies,
    said_of_shared_networks,
)
from prism.artifacts.results import HEADINGS, SEEDS, Result
from prism.machine.text_io import canonical_json
from prism.reports.rows import grouped, network_of, role_of
from prism.reports.sheet import NETWORK, Column, Sheet, label_and_role


@dataclass(frozen=True)
class Alike:
    """Sets that differ in nothing but their seeds, and were scored alike.

    Attributes:
        results: one or more of each set.
        role: as that of a row.
        network: architecture, with its width where that is not the paper's.
    """

    results: tuple[Result, ...]
    role: str
    network: str

    @property
    def label(self) -> str:
        """Their name in tables."""
        return self.results[0].label

    @property
    def budget(self) -> tuple[str, int]:
        """Rivals share it: the network, and the clips of an epoch."""
        return self.network, self.results[0].subject.num_videos

    @cached_property
    def runs(self) -> dict[Any, dict[int, float]]:
        """For each set the leading score of each network that judged it, by the network's seed."""
        return runs_by_set(self.results)

    @cached_property
    def sample(self) -> Sample:
        """These scores, by set."""
        return Sample({key: list(scores.values()) for key, scores in self.runs.items()})


def alike(results: Sequence[Result]) -> list[Alike]:
    """Results that may be compared, put together where their sets were made alike, by network, clips and score."""
    parts = [part for some in grouped(results, _making) for part in _one_of_each_seed(some)]
    found = [Alike(tuple(some), role_of(some[0]), network_of(some[0].config)) for some in parts]
    return sorted(found, key=lambda one: (one.budget, one.sample.mean, one.label))


def _making(result: Result) -> str:
    """All that sets which were made alike share, and how they were scored."""
    scored = {key: value for key, value in result.config.items() if key not in ("seed", "seeds")}
    return canonical_json([result.label, role_of(result), result.subject.kind, result.subject.making, scored])


def _one_of_each_seed(results: Sequence[Result]) -> list[list[Result]]:
    """The results apart where two sets have the same seeds: something that they do not say made them differ."""
    known: dict[str, list[str]] = {}

    def rank(result: Result) -> int:
        subject = result.subject
        prints = known.setdefault(canonical_json([subject.config.get(name) for name in SEEDS]), [])
        if subject.fingerprint not in prints:
            prints.append(subject.fingerprint)
        return prints.index(subject.fingerprint)

    return grouped(results, rank)


def sheet_of(found: Sequence[Alike]) -> Sheet | None:
    """The table of sets that were made alike; None where every set is alone but for real clips."""
    if best_of(found) is None:
        return None
    heading = HEADINGS[found[0].results[0].metrics[0]]
    several_networks = len({one.network for one in found}) > 1
    columns = [
        Column("sets", label_and_role, False),
        *([NETWORK] if several_networks else []),
        Column("clips", lambda one: f"{one.budget[1]:,}"),
        Column(f"{heading} %", lambda one: one.sample.in_percent),
        Column("lead over the floor", lambda one: _text(lead_over_floor(one, found)), wraps=True),
        Column("the best leads by", lambda one: _text(_behind(one, found)), wraps=True),
    ]
    return Sheet("Sets made alike", _notes(found), columns, found)


def lead_over_floor(one: Alike, found: Sequence[Alike]) -> Estimate | None:
    """The lead over random clips of the same number, under the same network; None where none is known."""
    floors = [other for other in found if other.role == "floor" and other.budget == one.budget and other != one]
    leads = [lead for floor in floors if (lead := one.sample.lead(floor.sample))]
    return min(leads, key=lambda lead: lead.mean, default=None)


def best_of(found: Sequence[Alike]) -> Alike | None:
    """The sets with the highest mean, floor and ceiling aside; None where no condensed sets have one."""
    several = [one for one in found if not one.role and one.sample.error is not None]
    if all(one.results[0].subject.kind == "store" for one in several):
        return None
    return max(several, key=lambda one: one.sample.mean)


def _behind(one: Alike, found: Sequence[Alike]) -> Estimate | None:
    best = best_of([other for other in found if other.budget == one.budget])
    return best.sample.lead(one.sample) if best and best is not one else None


def _text(lead: Estimate | None) -> str:
    return str(lead) if lead else "–"


def _notes(found: Sequence[Alike]) -> list[str]:
    said = [
        "A set counts once, with the mean of its networks: mean ± standard error over sets (sets × networks of "
        "each), or of one set mean ± sample standard deviation (networks). Leads are those among as many clips "
        "under one network, in points, with 95 % intervals by Student's t, paired where both have the same seeds."
    ]
    leads = [lead for one in found for lead in (lead_over_floor(one, found), _behind(one, found)) if lead]
    said += [NO_INTERVAL] if any(lead.interval is None for lead in leads) else []
    for one in found:
        doubts = (said_of_shared_networks(one.label, one.runs), said_of_copies(one.label, one.results))
        said += [f"Caution: {doubt}" for doubt in doubts if doubt]
    return said
