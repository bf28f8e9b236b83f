"""The paper's tables and figures as data: the content of paper.toml, as one cell for each number."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from prism.errors import ConfigError, nearest

FLOOR, CEILING = "Random", "Whole Dataset"
"""Rows that every table gets, even if the paper does not print them there."""
WHOLE = "whole"  # The name of the ceiling in files.
NETWORK = "convnet3d"  # The network of a table that names no other.


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes:
        label, name: the row's name in the paper, and in files.
        recipe, vpc: recipe and videos per class of the set; empty and 0 for all real training clips.
        metric: a score of `results.HEADINGS`.
        printed: the paper's number in percent, `17.9 ± 0.3` or `16.2`; empty if the paper has none.
        mib, whole_mib: the paper's MiB of stored frames, and of all training clips; 0 if the paper has none.
    """

    label: str
    name: str
    recipe: str
    vpc: int
    network: str
    metric: str
    printed: str
    mib: float
    whole_mib: float

    @property
    def share_percent(self) -> float:
        """The paper's stored frames in percent of all training clips; 0 if unknown."""
        return 100 * self.mib / self.whole_mib if self.whole_mib else 0.0


@dataclass(frozen=True)
class Exhibit:
    """A table or figure, its place in the paper, and its cells by data set, column by column."""

    name: str
    title: str
    place: str
    cells: dict[str, tuple[Cell, ...]]


@cache
def content_of(name: str) -> dict[str, Any]:
    """The content of a TOML file beside this module."""
    return tomllib.loads(resources.files("prism.reproduction").joinpath(name).read_text(encoding="utf-8"))


def data_sets() -> dict[str, str]:
    """Recipes by the paper's data sets; a recipe has the name of the data set's layout."""
    return content_of("paper.toml")["data"]


def exhibits() -> dict[str, Exhibit]:
    """Every table and figure, by the name that `prism reproduce` takes."""
    known, paper = {}, content_of("paper.toml")
    for name, content in paper.items():
        if "title" not in content:
            continue
        own = content["rows"] if "rows" in content else paper[content["rows_of"]]["rows"]
        columns = [(vpc, NETWORK) for vpc in content["vpc"]]
        columns += [(content["vpc"][0], network) for network in content.get("networks", ())]
        rows, metric, found = _on_scale(own), content.get("metric", "top1"), {}
        for data in (data for data in data_sets() if any(row.get(data) for row in own)):
            cells = [_cell(row, *column, metric, data) for column in columns for row in rows]
            # The row of all real clips has no videos per class: one cell per network is kept, the last.
            found[data] = tuple(dict.fromkeys(cells[::-1]))[::-1]
        known[name] = Exhibit(name, content["title"], content["place"], found)
    return known


def exhibit(name: str) -> Exhibit:
    """The table or figure with a name; ConfigError for an unknown name, with the nearest one."""
    known = exhibits()
    if name not in known:
        raise ConfigError(f"unknown table '{name}'.{nearest(str(name), list(known))} See prism reproduce --list.")
    return known[name]


def _on_scale(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows between floor and ceiling; a table without these gets them from Table 1."""
    if {row["label"] for row in rows} >= {FLOOR, CEILING}:
        return rows
    table1 = content_of("paper.toml")["table1"]["rows"]
    floor, ceiling = ([row for row in table1 if row["label"] == end] for end in (FLOOR, CEILING))
    return [*floor, *rows, *ceiling]


def _cell(row: dict[str, Any], vpc: int, network: str, metric: str, data: str) -> Cell:
    recipe = row.get("recipe", "")
    name, vpc = recipe.rpartition("/")[2] or WHOLE, vpc if recipe else 0
    printed = row.get(data, {}).get(str(vpc) if network == NETWORK else network, "")
    storage = content_of("paper.toml")["storage"].get(data, {})
    mib, whole = (storage.get(one, {}).get(str(at), 0.0) for one, at in ((name, vpc), (WHOLE, 0)))
    return Cell(row["label"], name, recipe, vpc, network, metric, printed, mib, whole)
