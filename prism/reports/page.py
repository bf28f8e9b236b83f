"""The page: one HTML file that needs nothing else, made of results and of the sets and stores that they name."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from prism.artifacts.kinds import PAGE, check_output_kind
from prism.artifacts.results import HEADINGS, Result, percent
from prism.artifacts.store import ClipStore
from prism.config import as_list, as_path
from prism.evaluation.protocols import PROTOCOLS
from prism.machine.files import lock, write_atomically
from prism.machine.run import OUTPUT
from prism.reports.groups import conclusion_of, group_over_seeds, sheet_of
from prism.reports.notes import cautions_on, notes_on
from prism.reports.plots import Mark, Series, score_plots, series_of
from prism.reports.sources import SetFile, find_sets, find_store, load_results
from prism.reports.tables import (
    LABEL,
    LABEL_AND_ROLE,
    METHOD,
    NETWORK,
    WHERE,
    Sheet,
    cost_columns,
    data_of,
    grouped,
    in_order,
    network_of,
    role_of,
    score_columns,
    terminal_table,
)
from prism.reports.text import counted, in_seconds, in_shares, listed, printable
from prism.reports.videos import Gallery, galleries

if TYPE_CHECKING:
    from rich.table import Table

SECONDS_PER_FRAME = 0.125
MAX_SCALE = 4  # Floors and ceilings in the sentence above a table; more of them are in the table only.
ON_TERMINAL = ("clips", "stored clips", "on disk", "time/run")  # They fit 80 characters beside two scores.


def report(
    results: Sequence[str | Path], output: str | Path, *, sheets: Sequence[Sheet] = (), overwrite: bool = False
) -> Path:
    """Write a page that shows results and the sets behind them.

    The page works offline, runs no script, and is the same for the same files. A set or store that is missing or
    has changed is named on it.

    Args:
        results: result files, as `prism evaluate` writes them, in any order. A `Result` itself will not do: sets
            and stores are found by the place of its file.
        output: the HTML file.
        sheets: tables to show before everything else; with one, there may be no results.
        overwrite: replace an output.

    Raises:
        ConfigError: there is nothing to show, or no list of it.
        ArtifactError: a result file is missing or damaged.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    results, output = as_list(results, "result files"), as_path(output, OUTPUT)
    sheets = as_list(sheets, "sheets")
    loaded = load_results(results) if results or not sheets else []
    with lock(output):
        named = [one.locate(path) for one in loaded for path in (one.subject.path, one.data.path) if path]
        check_output_kind(output, PAGE, overwrite, [*results, *named])
        write_atomically(output, build_page(loaded, sheets).encode())
    return output


def build_page(results: Sequence[Result], sheets: Sequence[Sheet] = ()) -> str:
    """The page's text."""
    sections = build_sections(results)
    tiles = [tile for section in sections for some in section.gallery.classes.values() for tile in some]
    rules = [resources.files("prism.reports").joinpath("page.css").read_text(encoding="utf-8")]
    # One animation for each number of frames; nothing but numbers is added to the style sheet.
    for n in sorted({tile.num_shown for tile in tiles}):
        seconds = n * SECONDS_PER_FRAME
        timing = f"animation-duration:{seconds:g}s;animation-timing-function:steps({n})"
        rules.append(f".n{n}{{--n:{n};animation-name:play{n};{timing}}}")
        rules.append(f"@keyframes play{n}{{to{{--at:{n}}}}}")
    for height, width in sorted({tile.size for tile in tiles}):
        rules.append(f".r{width}-{height}{{--shape:{width}/{height}}}")
    css = "\n".join(rules)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("prism.reports", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Every value passes here, so that no name can reach the page with a character that it obeys.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    template = environment.get_template("page.html.j2")
    return template.render(sheets=sheets, sections=sections, css=Markup(css), style_digest=digest, role_of=role_of)


@dataclass(frozen=True, kw_only=True)
class Group(Sheet):
    """Results that may be compared: their table and plots.

    Attributes:
        seeds: the table of sets over seeds; None where every set is alone.
        marks: of each row.
        conclusion: the best set in one sentence; empty without a set.
        lead: the scale on which to read the table, and its protocol.
    """

    seeds: Sheet | None
    series: list[Series]
    marks: list[Mark]
    conclusion: str
    lead: str


@dataclass(frozen=True)
class Section:
    """All results on one data set; the details of each are titled tables of two columns."""

    name: str
    facts: str
    problems: list[str]
    groups: list[Group]
    gallery: Gallery
    details: list[tuple[Result, dict[str, list[tuple[str, str]]]]]


def build_sections(results: Sequence[Result]) -> list[Section]:
    """A section for each data set. Rows that must not be compared stand in different groups of it."""
    ordered = sorted(results, key=lambda one: (one.data.path, one.label, str(one.file)))
    parts = grouped(ordered, lambda one: one.data.fingerprint)
    seen, found = set[Path](), []
    for part in parts:
        sets = [one for one in find_sets(part) if one.path not in seen]
        seen.update(one.path for one in sets)
        found.append((part, *find_store(part), sets, _examples(part, sets)))
    shown, sections = galleries([(store, few) for _, store, _, _, few in found]), []
    for (part, store, problem, some, few), gallery in zip(found, shown, strict=True):
        rows = in_order(part)
        if len(few) < len(some):
            gallery = replace(gallery, notes=(*gallery.notes, "Of the sets of a group the first one is shown."))
        sections.append(
            Section(
                store.name if store else data_of(rows[0]),
                _store_facts(rows[0], store),
                [text for text in (problem, *(one.problem for one in some)) if text],
                [_group(group) for group in grouped(rows, lambda one: one.group)],
                gallery,
                [(one, _details(one)) for one in part],
            )
        )
    return sections


def _examples(part: Sequence[Result], found: Sequence[SetFile]) -> list[SetFile]:
    """The sets, and of a group over seeds the first that can be shown."""
    files, firsts = {one.path: one for one in found}, set()
    for group in (group for some in grouped(part, lambda one: one.group) for group in group_over_seeds(some)):
        paths = [one.locate(one.subject.path) for one in group.results]
        own = [files[path] for path in paths if path in files]
        firsts.update(file.path for file in ([file for file in own if file.condensed is not None] or own)[:1])
    return [one for one in found if one.path in firsts]


def _store_facts(result: Result, store: ClipStore | None) -> str:
    facts = [counted(result.data.num_classes, "class", "classes")]
    if store is not None:
        height, width = store.size
        facts.append(f"clips of {store.num_frames} frames, {width} × {height} pixels")
        facts += [counted(count, f"{split} clip") for split, count in store.header.splits.items() if count]
    fingerprint = result.data.fingerprint[:12]
    return " · ".join([*facts, f"fingerprint {fingerprint}, a digest of all clips, labels and splits"])


def _group(rows: list[Result]) -> Group:
    first, series, groups = rows[0], series_of(rows), group_over_seeds(rows)
    clips, protocol = counted(first.data.num_clips, "clip"), PROTOCOLS.get(first.protocol)
    return Group(
        title=f"Scored on the {first.data.split} split ({clips}), protocol {first.protocol}",
        columns=[LABEL, METHOD, NETWORK, *score_columns(rows), *cost_columns(rows)],
        rows=rows,
        seeds=sheet_of(groups),
        series=series,
        marks=[next(one.mark for one in series if row in one.results) for row in rows],
        conclusion=conclusion_of(rows, groups),
        lead=" ".join(filter(None, [_scale(rows), protocol and protocol.words])),
        notes=notes_on(rows),
        plots=score_plots(series),
    )


def _scale(rows: list[Result]) -> str:
    """Chance, floor and ceiling: the scale on which to read the table."""
    metric = rows[0].metrics[0]
    parts = [f"a guess scores {in_shares([rows[0].data.chance[metric]])}"]
    scale = [row for row in rows if role_of(row)]
    several_networks = len({network_of(row) for row in rows}) > 1
    for row in scale if len(scale) <= MAX_SCALE else ():
        clips, draw = f"{row.subject.num_videos:,}", row.subject.method == "subset"
        what = f"all {clips} real training clips" if role_of(row) == "ceiling" else f"{clips} random real clips"
        what += " (a new draw for each network)" if draw else ""
        parts.append(
            f"{what} {percent(row.summary())} %" + (f" with {network_of(row)}" if several_networks else "")
        )
    missing = [f"no {role}" for role in ("floor", "ceiling") if all(role_of(row) != role for row in rows)]
    closing = f" There is {' and '.join(missing)} among these results." if missing else ""
    return f"The scale for {HEADINGS[metric]}: {listed(parts)}.{closing}"


def _details(result: Result) -> dict[str, list[tuple[str, str]]]:
    def pairs(values: dict[str, Any]) -> list[tuple[str, str]]:
        return [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in values.items()]

    runs = []
    for run in result.runs:
        scores = [f"{HEADINGS[metric]} {100 * run.scores[metric]:.2f} %" for metric in result.metrics]
        runs.append((f"seed {run.seed}", ", ".join([*scores, in_seconds(run.seconds)])))
    subject, data = result.subject, result.data
    return {
        "set": pairs({"kind": subject.kind, "path": subject.path, **subject.config}),
        "data": pairs({"path": data.path, "split": data.split, "fingerprint": data.fingerprint}),
        "training": pairs(result.config),
        "runs": runs,
        # The host's name says nothing about a result, and a page travels further than a result file.
        "provenance": pairs({key: value for key, value in result.provenance.items() if key != "host"}),
    }


def summary_tables(results: Iterable[Result]) -> list[tuple["Table", list[str]]]:
    """A short table for a terminal for each data set, and the cautions of the page about its rows.

    Rows that must not be compared stand in different sections. Tables of the sets over seeds follow, one for each
    network, because a column of networks would not fit 80 characters.
    """
    rows, found = in_order(results), []
    for some in grouped(rows, lambda one: one.data.fingerprint):
        groups = grouped(some, lambda one: one.group)
        found.append((_summary_table(some, groups), [text for group in groups for text in cautions_on(group)]))
    is_first = True
    for some in grouped(rows, lambda one: (one.group, network_of(one))):
        if sheet := sheet_of(group_over_seeds(some)):
            explained, *cautions = sheet.notes
            place = ", ".join(column.text(some[0]) for column in (*WHERE, NETWORK))
            caption = f"{place}. {explained}" if is_first else place
            found.append((terminal_table(sheet.columns, [sheet.rows], [caption]), cautions))
            is_first = False
    return found


def _summary_table(rows: Sequence[Result], groups: Sequence[Sequence[Result]]) -> "Table":
    # A text that is the same in every row stands in the caption, so that the table fits 80 characters.
    texts = {column: {column.text(row) for row in rows} for column in (*WHERE, NETWORK)}
    same = [text for found in texts.values() if len(found) == 1 for text in found]
    varying = [column for column, found in texts.items() if len(found) > 1]
    costs = [column for column in cost_columns(rows) if column.heading in ON_TERMINAL]
    shares = sorted({row.data.chance[row.metrics[0]] for row in rows})
    chance = " or ".join(f"{100 * share:.3g}" for share in shares)
    caption = f"{', '.join(same)}; mean ± sample standard deviation (networks trained); chance {chance} %"
    return terminal_table([LABEL_AND_ROLE, *varying, *score_columns(rows)[:2], *costs], groups, [caption])
