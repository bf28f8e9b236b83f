"""The paper's tables and figures as data: paper.toml, spread out into one cell for each printed number."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from prism.errors import ConfigError, nearest

FLOOR, CEILING = "Random", "Whole Dataset"
"""Rows that every table of scores gets, whether the paper prints them there or not."""
WHOLE = "whole"  # The name of the ceiling in files.
NETWORK = "convnet3d"  # Where a table names no other.


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes:
        label, name: the row's name in the paper, and in files.
        recipe, vpc: of its set; empty and 0 for all real training clips.
        metric: a score of `results.HEADINGS`.
        printed: the paper's number in percent, `17.9 ± 0.3` or `16.2`; empty where it has none.
        mib: the paper's stored frames in MiB, 0 where it does not say, and those of all training clips.
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
        """The paper's storage, in percent of that of all training clips."""
        return 100 * self.mib / self.whole_mib if self.whole_mib else 0.0


@dataclass(frozen=True)
class Exhibit:
    """A table or figure, where it stands in the paper, and for each data set its cells, column by column."""

    name: str
    title: str
    place: str
    cells: dict[str, tuple[Cell, ...]]


@cache
def content_of(name: str) -> dict[str, Any]:
    """The content of a TOML file beside this module."""
    return tomllib.loads(resources.files("prism.reproduction").joinpath(name).read_text(encoding="utf-8"))


def data_sets() -> dict[str, str]:
    """The paper's data sets, each with its recipe, which is named like its layout."""
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
            # All real clips have no videos per class: they stand once for each network, at the end.
            found[data] = tuple(dict.fromkeys(cells[::-1]))[::-1]
        known[name] = Exhibit(name, content["title"], content["place"], found)
    return known


def exhibit(name: str) -> Exhibit:
    """One table or figure; an unknown name is refused with the nearest one."""
    known = exhibits()
    if name not in known:
        raise ConfigError(f"unknown table '{name}'.{nearest(str(name), list(known))} See prism reproduce --list.")
    return known[name]


def _on_scale(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows between floor and ceiling, which come from Table 1 where a table lacks them."""
    if {row["label"] for row in rows} >= {FLOOR, CEILING}:
        return rows
    table1 = content_of("paper.toml")["table1"]["rows"]
    floor, ceiling = ([row for row in table1 if row["label"] == end] for end in (FLOOR, CEILING))
    return [*floor, *rows, *ceiling]


def _cell(row: dict[str, Any], vpc: int, network: str, metric: str, data: str) -> Cell:
    recipe = row.get("recipe", "")
    vpc = vpc if recipe else 0
    printed = row.get(data, {}).get(str(vpc) if network == NETWORK else network, "")
    name = recipe.rpartition("/")[2] or WHOLE
    storage = content_of("paper.toml")["storage"].get(data, {})
    mib, whole = (storage.get(one, {}).get(str(at), 0.0) for one, at in ((name, vpc), (WHOLE, 0)))
    return Cell(row["label"], name, recipe, vpc, network, metric, printed, mib, whole)
