"""The sections of the page: everything that the results on one data set have to say."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism.artifacts.results import HEADINGS
from prism.artifacts.store import ClipStore
from prism.reports.gallery import Gallery, galleries
from prism.reports.notes import notes_on
from prism.reports.plots import history_plots, score_plots
from prism.reports.rows import Row, build_rows, groups
from prism.reports.series import Mark, Series, series_of
from prism.reports.sheet import Column, Picture
from prism.reports.sources import Loaded, SetFile, find_sets, find_store
from prism.reports.tables import columns_of
from prism.reports.text import counted, in_bytes, in_percent, in_seconds, in_shares, listed

MAX_SCALE = 4
"""Floors and ceilings that the sentence above a table lists; more of them are in the table only."""


@dataclass(frozen=True)
class Group:
    """Rows that may be compared: their table and plots.

    Attributes:
        marks: the mark of each row, in the order of the rows.
        lead: the result in one or two sentences.
        notes: what a reader must know before comparing.
    """

    title: str
    columns: list[Column]
    rows: list[Row]
    series: list[Series]
    marks: list[Mark]
    lead: str
    notes: list[str]
    plots: list[Picture]


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
    """A section for each data set; what must not be compared stands apart in it."""
    parts = _by_data(loaded)
    stores = [find_store(part) for part in parts]
    sets = _each_once([find_sets(part) for part in parts])
    shown = galleries([(store, some) for (store, _), some in zip(stores, sets, strict=True)])
    return [
        _section(part, store, problem, some, gallery)
        for part, (store, problem), some, gallery in zip(parts, stores, sets, shown, strict=True)
    ]


def _by_data(loaded: Sequence[Loaded]) -> list[list[Loaded]]:
    apart: dict[str, list[Loaded]] = {}
    for item in sorted(loaded, key=lambda item: (item.result.data.path, item.result.label, str(item.path))):
        apart.setdefault(item.result.data.fingerprint, []).append(item)
    return list(apart.values())


def _each_once(sets: list[list[SetFile]]) -> list[list[SetFile]]:
    seen: set[Path] = set()
    kept = []
    for some in sets:
        kept.append([found for found in some if found.path not in seen])
        seen.update(found.path for found in some)
    return kept


def _section(
    loaded: list[Loaded], store: ClipStore | None, problem: str, sets: list[SetFile], gallery: Gallery
) -> Section:
    rows = build_rows(item.result for item in loaded)
    return Section(
        rows[0].data,
        _store_facts(rows[0], store),
        problem,
        [_group(group, [i for i in loaded if _belongs(i, group)]) for group in groups(rows)],
        gallery,
        [history for found in sets if (history := _history(found)).plots or history.problems],
        [_details(item) for item in loaded],
    )


def _belongs(item: Loaded, group: list[Row]) -> bool:
    result = item.result
    return (result.data.fingerprint, result.data.split, result.protocol, result.task) == group[0].group


def _store_facts(row: Row, store: ClipStore | None) -> str:
    facts = [counted(row.num_classes, "class", "classes")]
    if store is not None:
        height, width = store.size
        facts.append(f"clips of {store.num_frames} frames, {width} × {height} pixels")
        facts += [counted(count, f"{split} clip") for split, count in store.header.splits.items() if count]
    facts.append(f"fingerprint {row.fingerprint[:12]}")
    return " · ".join(facts)


def _group(rows: list[Row], loaded: list[Loaded]) -> Group:
    series = series_of(rows)
    marks = [next(one.mark for one in series if row in one.rows) for row in rows]
    notes = notes_on([item.result for item in loaded], rows)
    return Group(
        _title(rows[0]), columns_of(rows[0].task), rows, series, marks, _lead(rows), notes, score_plots(series)
    )


def _title(row: Row) -> str:
    task = "Retrieval: scored" if row.task == "retrieval" else "Scored"
    return f"{task} on the {row.split} split ({counted(row.num_test_clips, 'clip')}), protocol {row.protocol}"


def _lead(rows: list[Row]) -> str:
    """Chance, floor and ceiling: the scale on which to read the table."""
    metric = rows[0].metric
    said = [f"a guess scores {in_shares([rows[0].chance[metric]])}"]
    scale = [row for row in rows if row.role]
    if len(scale) <= MAX_SCALE:
        networks = {row.network for row in rows}
        said += [_on_scale(row) + (f" with {row.network}" if len(networks) > 1 else "") for row in scale]
    missing = [f"no {role}" for role in ("floor", "ceiling") if all(row.role != role for row in rows)]
    closing = f" There is {' and '.join(missing)} among these results." if missing else ""
    return f"The scale for {HEADINGS[metric]}: {listed(said)}.{closing}"


def _on_scale(row: Row) -> str:
    if row.role == "ceiling":
        return f"all {row.clips:,} real training clips {in_percent(row.lead)} %"
    draw = " (a new draw for each network)" if row.method == "subset" else ""
    return f"{row.clips:,} random real clips{draw} {in_percent(row.lead)} %"


def _history(found: SetFile) -> History:
    facts = []
    if found.condensed is not None:
        facts.append(
            f"{counted(len(found.condensed), 'video')}, {counted(found.condensed.num_keyframes, 'key-frame')}"
        )
    curves = found.curves
    if curves is None or found.condensed is None:
        return History(found.name, " · ".join(facts), found.problems, [])
    if curves.seconds is not None:
        facts.append(f"condensed in {in_seconds(curves.seconds)}")
    if curves.peak_memory_bytes:
        facts.append(f"peak memory {in_bytes(curves.peak_memory_bytes)}")
    if curves.hardware:
        facts.append(curves.hardware)
    if not len(curves.insertions):
        facts.append("no key-frame was inserted")
    return History(
        found.name, " · ".join(facts), found.problems, history_plots(curves, found.condensed.num_frames)
    )


def _details(item: Loaded) -> Details:
    result = item.result
    # The host's name says nothing about a result, and a page travels further than a result file.
    origin = {key: value for key, value in result.provenance.items() if key != "host"}
    runs = [
        (
            f"seed {run.seed}",
            ", ".join(
                [
                    *(f"{HEADINGS[metric]} {100 * run.scores[metric]:.2f} %" for metric in result.metrics),
                    in_seconds(run.seconds),
                ]
            ),
        )
        for run in result.runs
    ]
    subject = {"kind": result.subject.kind, "path": result.subject.path, **result.subject.config}
    data = {"path": result.data.path, "split": result.data.split, "fingerprint": result.data.fingerprint}
    tables = [("set", _pairs(subject)), ("data", _pairs(data)), ("training", _pairs(result.config))]
    return Details(result.label, item.path.name, [*tables, ("runs", runs), ("provenance", _pairs(origin))])


def _pairs(values: dict[str, Any]) -> list[tuple[str, str]]:
    return [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in values.items()]
