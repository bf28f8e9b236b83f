"""Groups: sets that differ in nothing but their seeds, with their mean, its error, and their lead over others."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from prism.artifacts.estimates import NO_INTERVAL, Estimate, doubts_of, sample_of
from prism.artifacts.results import HEADINGS, SEEDS, Result, percent
from prism.machine.text_io import canonical_json
from prism.reports.tables import Column, Sheet, grouped, named, network_of, role_of


@dataclass
class SeedGroup:
    """One or more results of each set of a group, with their scores by set."""

    results: tuple[Result, ...]

    def __post_init__(self) -> None:
        first = self.results[0]
        self.label, self.role = first.label, role_of(first)
        # Rivals share their budget: the network, and the clips of an epoch.
        self.budget = network_of(first), first.subject.num_videos
        self.sample = sample_of(self.results)


def group_over_seeds(results: Sequence[Result]) -> list[SeedGroup]:
    """Results that may be compared, by what made their sets and trained on them, in the order of their scores."""

    def making(one: Result) -> str:
        scored = {key: value for key, value in one.config.items() if key not in ("seed", "seeds")}
        return canonical_json([one.label, role_of(one), one.subject.kind, one.subject.making, scored])

    parts = [part for some in grouped(results, making) for part in _one_of_each_seed(some)]
    found = [SeedGroup(tuple(some)) for some in parts]
    return sorted(found, key=lambda one: (one.budget, one.sample.mean, one.label))


def _one_of_each_seed(results: Sequence[Result]) -> list[list[Result]]:
    """The results apart where two sets have the same seeds: something that they do not record made them differ."""
    known: dict[str, list[str]] = {}

    def number(one: Result) -> int:
        subject = one.subject
        prints = known.setdefault(canonical_json([subject.config.get(name) for name in SEEDS]), [])
        if subject.fingerprint not in prints:
            prints.append(subject.fingerprint)
        return prints.index(subject.fingerprint)

    return grouped(results, number)


def best_of(groups: Sequence[SeedGroup]) -> SeedGroup | None:
    """The sets with the highest mean, floor and ceiling aside; None where no condensed sets have one."""
    several = [one for one in groups if not one.role and one.sample.error is not None]
    if all(one.results[0].subject.kind == "store" for one in several):
        return None
    return max(several, key=lambda one: one.sample.mean)


def lead_over_floor(one: SeedGroup, groups: Sequence[SeedGroup]) -> Estimate | None:
    """The lead over random clips of the same number, under the same network; None where none is known."""
    floors = [other for other in groups if other.role == "floor" and other.budget == one.budget and other != one]
    leads = [lead for floor in floors if (lead := one.sample.lead(floor.sample))]
    return min(leads, key=lambda lead: lead.mean, default=None)


def _behind(one: SeedGroup, groups: Sequence[SeedGroup]) -> Estimate | None:
    best = best_of([other for other in groups if other.budget == one.budget])
    return best.sample.lead(one.sample) if best and best is not one else None


def sheet_of(groups: Sequence[SeedGroup]) -> Sheet | None:
    """The table of groups; None where every set is alone but for real clips."""
    if best_of(groups) is None:
        return None
    heading = HEADINGS[groups[0].results[0].metrics[0]]
    columns = [
        Column("sets", lambda one: named(one.label, one.role), False),
        Column("network", lambda one: one.budget[0], False),
        Column("clips", lambda one: f"{one.budget[1]:,}"),
        Column(f"{heading} %", lambda one: one.sample.in_percent),
        Column("lead over the floor", lambda one: str(lead_over_floor(one, groups) or "–"), wraps=True),
        Column("the best leads by", lambda one: str(_behind(one, groups) or "–"), wraps=True),
    ]
    if len({one.budget[0] for one in groups}) == 1:
        del columns[1]
    notes = [
        "A set counts once, with the mean of its networks: mean ± standard error over sets (sets × networks of "
        "each), or of one set mean ± sample standard deviation (networks). Leads are those among as many clips "
        "under one network, in points, with 95 % intervals by Student's t, paired where both have the same seeds."
    ]
    leads = [lead for one in groups for lead in (lead_over_floor(one, groups), _behind(one, groups)) if lead]
    notes += [NO_INTERVAL] if any(lead.interval is None for lead in leads) else []
    for one in groups:
        notes += [f"Caution: {doubt}" for doubt in doubts_of(one.label, one.results)]
    return Sheet("Sets over seeds", notes, columns, groups)


def conclusion_of(results: Sequence[Result], groups: Sequence[SeedGroup]) -> str:
    """The best set between floor and ceiling; where there are several of a group, the best mean."""
    if best := best_of(groups):
        # The best of several seeds would be the luckiest.
        which, score, text, network = (
            "sets over seeds are",
            best.sample.mean,
            best.sample.in_percent,
            best.budget[0],
        )
        scale = [(one.role, one.sample.mean) for one in groups if one.budget[0] == network]
    elif sets := [one for one in results if not role_of(one)]:
        best = max(sets, key=lambda one: one.summary()[0])
        which, score, text, network = "set is", best.summary()[0], percent(best.summary()), network_of(best)
        scale = [(role_of(one), one.summary()[0]) for one in results if network_of(one) == network]
    else:
        return ""
    places = []
    for role, word, lies_so in (("floor", "above", operator.gt), ("ceiling", "below", operator.lt)):
        if limit := max((other for its_role, other in scale if its_role == role), default=0.0):
            places.append(f"{'' if lies_so(score, limit) else 'not '}{word} the {role} ({100 * limit:.1f} %)")
    where = f", {' and '.join(places)}" if places else ""
    return f"The best {which} “{best.label}”: {HEADINGS[results[0].metrics[0]]} {text} %{where}."
