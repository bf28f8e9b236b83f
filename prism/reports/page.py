"""The page: one self-contained HTML file, made from results and from the sets and stores that they name."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePath
from typing import Any

import jinja2
from markupsafe import Markup
from rich.table import Table

from prism.artifacts.results import HEADINGS, Result
from prism.config import as_list, as_path
from prism.errors import ConfigError, nearest
from prism.machine.devices import plain_torch
from prism.machine.files import check_output_file, lock, write_atomically
from prism.machine.text_io import printable
from prism.reports.plots import marks_of, plot_of_rows
from prism.reports.rows import LEAD, Row, cautions_on, columns_of, conclusion_of, notes_on, rows_of
from prism.reports.text import Sheet, counted, grouped, in_seconds, terminal_table
from prism.reports.videos import Gallery, find_sets, find_store, gallery_of

SECONDS_PER_FRAME = 0.125
ON_TERMINAL = ("set", "clips", "stored clips", "on disk")
"""Columns that fit 80 characters beside the leading score and a lead."""


@plain_torch()
def report(results: Sequence[str | Path], output: str | Path, *, overwrite: bool = False, over: str = "") -> Path:
    """Write a page that shows results and the sets behind them.

    The page works offline, runs no script, is the same for the same files, and names what is missing or changed.

    Args:
        results: result files of `prism evaluate`, in any order. A `Result` object is refused, because sets and
            stores are found relative to the file.
        output: the HTML file.
        overwrite: replace an output.
        over: the label of a row, over which the leads of the others are shown, too.

    Raises:
        ConfigError: `results` is empty or no list, no result has the label, or the output has another ending.
        ArtifactError: a result file is missing or damaged.
        OutputError: the output exists, cannot be written, or another run is writing it.
    """
    results, output = as_list(results, "result files"), as_path(output)
    if output.suffix.lower() not in ("", ".html", ".htm"):
        raise ConfigError(f"output '{output}' would be a page in HTML. Choose a name that ends in .html.")
    loaded = load_results(results)
    if over not in ("", *(labels := sorted({one.label for one in loaded}))):
        known = ", ".join(map(repr, labels))
        raise ConfigError(f"over = {over!r}, but the labels of the results are {known}.{nearest(over, labels)}")
    with lock(output):
        named = [one.locate(path) for one in loaded for path in (one.subject.path, one.data.path) if path]
        check_output_file(output, overwrite, [*results, *named])
        write_atomically(output, build_page(loaded, over=over).encode())
    return output


def load_results(paths: Sequence[str | Path]) -> list[Result]:
    """The results in some files; a file that is named twice counts once."""
    if not paths:
        raise ConfigError("report needs at least one result file, as prism evaluate writes them.")
    places = [as_path(path, "the file of a result") for path in paths]
    return [Result.load(path) for path in {path.resolve(): path for path in places}.values()]


def build_page(results: Sequence[Result], sheets: Sequence[Sheet] = (), over: str = "") -> str:
    sections = build_sections(results, over)
    tiles = [tile for section in sections for some in section.gallery.values() for tile in some]
    rules = [resources.files("prism.reports").joinpath("page.css").read_text(encoding="utf-8")]
    # One animation for each number of frames; nothing but numbers is added to the style sheet.
    for n in sorted({tile.num_shown for tile in tiles}):
        timing = f"animation-duration:{n * SECONDS_PER_FRAME:g}s;animation-timing-function:steps({n})"
        rules.append(f".n{n}{{--n:{n};animation-name:play{n};{timing}}}")
        rules.append(f"@keyframes play{n}{{to{{--at:{n}}}}}")
    rules += [f".r{w}-{h}{{--shape:{w}/{h}}}" for h, w in sorted({tile.size for tile in tiles})]
    css = "\n".join(rules)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("prism.reports", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Every value passes here, so that no name brings a control character into the page.
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    template = environment.get_template("page.html.j2")
    return template.render(sheets=sheets, sections=sections, css=Markup(css), style_digest=digest)


@dataclass(frozen=True)
class Section:
    """Results on one data set; `details` holds for each result tables of two columns, by title."""

    name: str
    facts: str
    problems: list[str]
    groups: list[Sheet]
    gallery: Gallery
    notes: list[str]
    details: list[tuple[Result, dict[str, list[tuple[str, str]]]]]


def build_sections(results: Sequence[Result], over: str = "") -> list[Section]:
    """A section for each data set; rows that must not be compared are in different groups of the section."""
    ordered = sorted(results, key=lambda one: (one.data.path, one.label, str(one.file)))
    sections = list[Section]()
    for part in grouped(ordered, lambda one: one.data.fingerprint):
        tables = [rows_of(some) for some in grouped(part, lambda one: one.group)]
        rows = [row for some in tables for row in some]
        (store, no_store), (videos, no_sets) = find_store(part), find_sets(rows)
        gallery, notes = gallery_of(store, videos)
        if any(len(row.results) > 1 for row in rows):
            notes.append("Of the sets of a row the first one is shown.")
        name = store.name if store else PurePath(part[0].data.path).name or part[0].data.path
        facts = [store.contents] if store else []
        facts.append(f"fingerprint {part[0].data.fingerprint[:12]}, a digest of all clips, labels and splits")
        groups, details = [_group(rows, over) for rows in tables], [(one, _details(one)) for one in part]
        sections.append(Section(name, " · ".join(facts), no_store + no_sets, groups, gallery, notes, details))
    return sections


def _group(rows: list[Row], over: str) -> Sheet:
    data, protocol = rows[0].first.data, rows[0].first.protocol
    title = f"Scored on the {data.split} split ({counted(data.num_clips, 'clip')}), protocol {protocol}"
    about = [plot_of_rows(rows)], marks_of(rows), conclusion_of(rows)
    return Sheet(title, notes_on(rows, over), columns_of(rows, over), rows, *about)


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
        # The host's name does not matter for a result, and a page is shown to more people than a result file.
        "provenance": pairs({key: value for key, value in result.provenance.items() if key != "host"}),
    }


def summary_tables(results: Iterable[Result], over: str = "") -> list[tuple[Table, list[str]]]:
    """Tables for a terminal, each with its cautions: one for each network and group of comparable results."""
    found, ordered = [], sorted(results, key=lambda one: (one.data.path, one.group))
    tables = [rows_of(some) for some in grouped(ordered, lambda one: one.group)]
    for rows in (some for table in tables for some in grouped(table, lambda row: row.network)):
        first = rows[0].first
        shown = (*ON_TERMINAL, f"{HEADINGS[first.metrics[0]]} %", f"lead over “{over}”" if over else LEAD)
        columns = [column for column in columns_of(rows, over) if column.heading in shown]
        place = [PurePath(first.data.path).name, first.data.split, first.protocol, rows[0].network]
        chance = f"{100 * first.data.chance[first.metrics[0]]:.3g}"
        below = f"{', '.join(place)}; chance {chance} %; mean ± error over sets (sets × networks) or networks (n)"
        found.append((terminal_table(columns, rows, [below]), cautions_on(rows)))
    return found
