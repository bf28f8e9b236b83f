"""The page: one HTML file that needs nothing else, made of results and of the sets and stores that they name."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup

from prism.artifacts.kinds import PAGE, check_output_kind
from prism.config import as_list, as_path
from prism.machine.files import lock, write_atomically
from prism.machine.run import OUTPUT
from prism.reports.sections import build_sections
from prism.reports.series import SHAPES
from prism.reports.sheet import Sheet
from prism.reports.sources import Loaded, load_results
from prism.reports.text import printable

SECONDS_PER_FRAME = 0.125


def report(
    results: Sequence[str | Path], output: str | Path, *, sheets: Sequence[Sheet] = (), overwrite: bool = False
) -> Path:
    """Write a page that shows results, the sets behind them, and how these came to be.

    The page works offline, runs no script, and is the same for the same files. A set, store or
    telemetry file that is missing or has changed is named on it.

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
        shown = [item.locate(path) for item in loaded for path in item.paths]
        check_output_kind(output, PAGE, overwrite, [*results, *shown])
        write_atomically(output, build_page(loaded, sheets).encode())
    return output


def build_page(loaded: Sequence[Loaded], sheets: Sequence[Sheet] = ()) -> str:
    """The page's text."""
    sections = build_sections(loaded)
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
    return template.render(sheets=sheets, sections=sections, css=Markup(css), style_digest=digest, shapes=SHAPES)
