"""Sections: the content of the page for one data set, ready for its template: tables, plots, videos, details."""

import json
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import HEADINGS, percent
from prism.artifacts.store import ClipStore
from prism.evaluation.protocols import PROTOCOLS
from prism.reports.alike import Alike, alike, best_of, sheet_of
from prism.reports.gallery import Gallery, galleries
from prism.reports.histories import history_plots
from prism.reports.notes import notes_on
from prism.reports.plots import score_plots
from prism.reports.rows import Row, build_rows, grouped, groups
from prism.reports.series import Mark, Series, series_of
from prism.reports.sheet import Picture, Sheet
from prism.reports.sources import Loaded, SetFile, find_sets, find_store
from prism.reports.tables import columns_of
from prism.reports.text import counted, in_bytes, in_seconds, in_shares, listed

MAX_SCALE = 4
"""Floors and ceilings that the sentence above a table lists; more of them are in the table only."""

ONE_OF_THEM = "Of sets that were made alike the first one is shown."


@dataclass(frozen=True, kw_only=True)
class Group(Sheet):
    """Rows that may be compared: their table and plots.

    Attributes:
        alike: the sets that were made alike, put together; None where every set is alone.
        marks: the mark of each row, in the order of the rows.
        conclusion: the best set in one sentence; empty without a set.
        lead: the scale on which to read the table, and its protocol.
    """

    alike: Sheet | None
    series: list[Series]
    marks: list[Mark]
    conclusion: str
    lead: str


@dataclass(frozen=True)
class Section:
    """All results on one data set."""

    name: str
    facts: str
    problem: str
    groups: list[Group]
    gallery: Gallery
    histories: list["History"]
    details: list["Details"]


@dataclass(frozen=True)
class History:
    """How one set came to be."""

    name: str
    facts: str
    problems: list[str]
    plots: list[Picture]


@dataclass(frozen=True)
class Details:
    """Configuration and provenance of one result, as titled tables of two columns."""

    label: str
    file: str
    tables: list[tuple[str, list[tuple[str, str]]]]


def build_sections(loaded: Sequence[Loaded]) -> list[Section]:
    """A section for each data set. Rows that must not be compared stand in different groups of it."""
    ordered = sorted(loaded, key=lambda item: (item.result.data.path, item.result.label, str(item.path)))
    parts = grouped(ordered, lambda item: item.result.data.fingerprint)
    stores = [find_store(part) for part in parts]
    seen: set[Path] = set()
    sets: list[list[SetFile]] = []
    for part in parts:
        found = find_sets(part)
        sets.append([one for one in found if one.path not in seen])
        seen.update(one.path for one in found)
    examples = [_examples(part, some) for part, some in zip(parts, sets, strict=True)]
    shown = galleries([(store, some) for (store, _), some in zip(stores, examples, strict=True)])
    sections = []
    for part, (store, problem), some, few, gallery in zip(parts, stores, sets, examples, shown, strict=True):
        rows = build_rows(item.result for item in part)
        told = [_history(one) for one in some if one in few or one.problems]
        histories = [history for history in told if history.plots or history.problems]
        if len(few) < len(some):
            gallery = replace(gallery, notes=(*gallery.notes, ONE_OF_THEM))
        facts = _store_facts(rows[0], store)
        comparable = [_group(group, part) for group in groups(rows)]
        details = [_details(item) for item in part]
        name = store.name if store else rows[0].data
        sections.append(Section(name, facts, problem, comparable, gallery, histories, details))
    return sections


def _examples(part: Sequence[Loaded], found: Sequence[SetFile]) -> list[SetFile]:
    """The sets, and of those that were made alike the first that can be shown."""
    paths = {id(item.result): item.locate(item.result.subject.path) for item in part}
    groups = grouped([item.result for item in part], lambda result: result.group)
    files = {one.path: one for one in found}
    firsts = set()
    for one in (one for some in groups for one in alike(some)):
        of_these = [files[paths[id(result)]] for result in one.results if paths[id(result)] in files]
        shown = [file for file in of_these if file.condensed is not None]
        firsts.update(file.path for file in (shown or of_these)[:1])
    return [one for one in found if one.path in firsts]


def _store_facts(row: Row, store: ClipStore | None) -> str:
    facts = [counted(row.num_classes, "class", "classes")]
    if store is not None:
        height, width = store.size
        facts.append(f"clips of {store.num_frames} frames, {width} × {height} pixels")
        facts += [counted(count, f"{split} clip") for split, count in store.header.splits.items() if count]
    return " · ".join([*facts, f"fingerprint {row.fingerprint[:12]}, a digest of all clips, labels and splits"])


def _group(rows: list[Row], loaded: list[Loaded]) -> Group:
    first, series = rows[0], series_of(rows)
    scored = "Retrieval: scored" if first.task == "retrieval" else "Scored"
    clips = counted(first.num_test_clips, "clip")
    mine = [item.result for item in loaded if item.result.group == first.group]
    together, protocol = alike(mine), PROTOCOLS.get(first.protocol)
    return Group(
        title=f"{scored} on the {first.split} split ({clips}), protocol {first.protocol}",
        columns=columns_of(first.task, rows),
        rows=rows,
        alike=sheet_of(together),
        series=series,
        marks=[next(one.mark for one in series if row in one.rows) for row in rows],
        conclusion=conclusion_of(rows, together),
        lead=" ".join(filter(None, [_lead(rows), protocol and protocol.words])),
        notes=notes_on(mine, rows),
        plots=score_plots(series),
    )


def conclusion_of(rows: Sequence[Row], together: Sequence[Alike] = ()) -> str:
    """The best set between floor and ceiling; sets that were made alike count by their mean."""
    if group := best_of(together):
        # The best of several seeds would be the luckiest.
        named, score, text = "best sets over seeds are", group.sample.mean, group.sample.in_percent
        label, network = group.label, group.network
        scale = [(one.role, one.sample.mean) for one in together if one.network == network]
    elif sets := [row for row in rows if not row.role]:
        best = max(sets, key=lambda row: row.lead[0])
        named, score, text, label, network = (
            "best set is",
            best.lead[0],
            percent(best.lead),
            best.label,
            best.network,
        )
        scale = [(row.role, row.lead[0]) for row in rows if row.network == network]
    else:
        return ""
    places = []
    for role, word, lies_so in (("floor", "above", operator.gt), ("ceiling", "below", operator.lt)):
        if limit := max((other for its_role, other in scale if its_role == role), default=0.0):
            places.append(f"{'' if lies_so(score, limit) else 'not '}{word} the {role} ({100 * limit:.1f} %)")
    where = f", {' and '.join(places)}" if places else ""
    return f"The {named} “{label}”: {HEADINGS[rows[0].metric]} {text} %{where}."


def _lead(rows: list[Row]) -> str:
    """Chance, floor and ceiling: the scale on which to read the table."""
    metric = rows[0].metric
    said = [f"a guess scores {in_shares([rows[0].chance[metric]])}"]
    scale = [row for row in rows if row.role]
    if len(scale) <= MAX_SCALE:
        has_networks = len({row.network for row in rows}) > 1
        said += [_on_scale(row) + (f" with {row.network}" if has_networks else "") for row in scale]
    missing = [f"no {role}" for role in ("floor", "ceiling") if all(row.role != role for row in rows)]
    closing = f" There is {' and '.join(missing)} among these results." if missing else ""
    return f"The scale for {HEADINGS[metric]}: {listed(said)}.{closing}"


def _on_scale(row: Row) -> str:
    if row.role == "ceiling":
        return f"all {row.clips:,} real training clips {percent(row.lead)} %"
    draw = " (a new draw for each network)" if row.method == "subset" else ""
    return f"{row.clips:,} random real clips{draw} {percent(row.lead)} %"


def _history(found: SetFile) -> History:
    condensed, curves, facts, plots = found.condensed, found.curves, [], []
    if condensed is not None:
        facts.append(f"{counted(len(condensed), 'video')}, {counted(condensed.num_keyframes, 'key-frame')}")
    if condensed is not None and (alignment := _alignment(condensed)) is not None:
        facts.append(f"alignment {alignment:.2f} on networks that it was not trained on")
    if condensed is not None and curves is not None:
        plots = history_plots(curves, condensed.num_frames)
        facts += [f"condensed in {in_seconds(curves.seconds)}"] if curves.seconds is not None else []
        facts += [f"peak memory {in_bytes(curves.peak_memory_bytes)}"] if curves.peak_memory_bytes else []
        facts += [curves.hardware] if curves.hardware else []
        facts += [] if len(curves.insertions) else ["no key-frame was inserted"]
    return History(found.name, " · ".join(facts), found.problems, plots)


def _alignment(condensed: CondensedSet) -> float | None:
    unseen = condensed.source.get("unseen")
    alignment = unseen.get("alignment") if isinstance(unseen, dict) else None
    return alignment if type(alignment) is float and math.isfinite(alignment) else None


def _details(item: Loaded) -> Details:
    result = item.result
    runs = []
    for run in result.runs:
        scores = [f"{HEADINGS[metric]} {100 * run.scores[metric]:.2f} %" for metric in result.metrics]
        runs.append((f"seed {run.seed}", ", ".join([*scores, in_seconds(run.seconds)])))
    subject = {"kind": result.subject.kind, "path": result.subject.path, **result.subject.config}
    data = {"path": result.data.path, "split": result.data.split, "fingerprint": result.data.fingerprint}
    # The host's name says nothing about a result, and a page travels further than a result file.
    origin = {key: value for key, value in result.provenance.items() if key != "host"}
    tables = [("set", _pairs(subject)), ("data", _pairs(data)), ("training", _pairs(result.config))]
    return Details(result.label, item.path.name, [*tables, ("runs", runs), ("provenance", _pairs(origin))])


def _pairs(values: dict[str, Any]) -> list[tuple[str, str]]:
    return [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in values.items()]
