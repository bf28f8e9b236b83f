"""The paper's tables and figures as data: paper.toml, spread out into one cell for each printed number."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from prism.config import nearest
from prism.errors import ConfigError

STORAGE = "storage"
"""The metric of a table that counts bytes and trains nothing."""
FLOOR, CEILING = "Random", "Whole Dataset"
"""Rows that every table of scores gets, whether the paper prints them there or not."""
WHOLE = "whole"  # The name of the ceiling in files.
NETWORK = "convnet3d"  # Where a table names no other.


@dataclass(frozen=True)
class Printed:
    """A number as the paper prints it: in percent (storage: MiB), with its deviation if it gives one."""

    mean: float
    std: float | None

    @classmethod
    def parse(cls, text: str) -> "Printed":
        """`17.9 ± 0.3` or `16.2`."""
        mean, _, std = text.partition("±")
        return cls(float(mean), float(std) if std else None)

    def __str__(self) -> str:
        return f"{self.mean:g}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes:
        label, name: the row's name in the paper, and in files.
        recipe, vpc: of its set; empty and 0 for all real training clips.
        metric: a score of `results.HEADINGS`, or `storage`.
        printed, storage: the paper's number and storage, where it has them.
        storage_share: the storage in percent of that of all training clips.
    """

    label: str
    name: str
    recipe: str
    vpc: int
    network: str
    metric: str
    printed: Printed | None
    storage: Printed | None
    storage_share: float


@dataclass(frozen=True)
class Exhibit:
    """A table or figure, where it stands in the paper, and for each data set its cells, column by column."""

    name: str
    title: str
    place: str
    cells: dict[str, tuple[Cell, ...]]


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(resources.files("prism.reproduction").joinpath("paper.toml").read_text(encoding="utf-8"))


def data_sets() -> dict[str, dict[str, str]]:
    """The paper's data sets: the recipes of each by videos per class, the first named like its layout."""
    return _content()["data"]


def at_most(vpc: int, by_vpc: dict[str, Any]) -> Any:
    """The entry of the largest number of videos per class that does not exceed `vpc`."""
    return by_vpc[str(max(int(key) for key in by_vpc if int(key) <= vpc))]


def exhibits() -> dict[str, Exhibit]:
    """Every table and figure, by the name that `prism reproduce` takes."""
    known = {}
    for name, content in ((name, content) for name, content in _content().items() if name != "data"):
        rows, found = _rows(name), {}
        for data in content.get("data", data_sets()):
            if any(row.get(data) for row in rows):
                columns = _columns(content, rows, data)
                cells = [_cell(row, column, data) for column in columns for row in _on_scale(rows, column)]
                # All real clips have no videos per class: they stand once for each network and score, at the end.
                found[data] = tuple(cell for i, cell in enumerate(cells) if cell not in cells[i + 1 :])
        known[name] = Exhibit(name, content["title"], content["place"], found)
    return known


def exhibit(name: str) -> Exhibit:
    """One table or figure; an unknown name is refused with the nearest one."""
    known = exhibits()
    if name not in known:
        raise ConfigError(f"unknown table '{name}'.{nearest(str(name), list(known))} See prism reproduce --list.")
    return known[name]


def _rows(name: str) -> list[dict[str, Any]]:
    """The rows of a table as they are written, with those of the table that it completes."""
    content = _content()[name]
    if "rows_of" not in content:
        return content["rows"]
    more = {row["label"]: row for row in content.get("rows", [])}
    joined = []
    for row in _rows(content["rows_of"]):
        added = more.get(row["label"], {})
        joined.append({**row, **{data: {**row.get(data, {}), **added.get(data, {})} for data in data_sets()}})
    return joined


class _Column(NamedTuple):
    vpc: int
    network: str
    metric: str
    key: str


def _columns(content: dict[str, Any], rows: list[dict[str, Any]], data: str) -> Iterator[_Column]:
    kind, metric, (first, *_) = content.get("columns", "vpc"), content.get("metric", "top1"), content["vpc"]
    for vpc in content["vpc"] if kind in ("vpc", STORAGE) else ():
        yield _Column(vpc, NETWORK, STORAGE if kind == STORAGE else metric, str(vpc))
    keys = dict.fromkeys(key for row in rows for key in row.get(data, {}))
    for key in keys if kind == "network" else ():
        yield _Column(first, key, metric, key)


def _on_scale(rows: list[dict[str, Any]], column: _Column) -> list[dict[str, Any]]:
    """The rows between floor and ceiling, which come from Table 1 where a table of scores lacks them."""
    labels = {row["label"] for row in rows}
    if column.metric == STORAGE or labels >= {FLOOR, CEILING}:
        return rows
    table1 = _content()["table1"]["rows"]
    floor, ceiling = ([row for row in table1 if row["label"] == end] for end in (FLOOR, CEILING))
    return [*floor, *rows, *ceiling]


def _cell(row: dict[str, Any], column: _Column, data: str) -> Cell:
    by_vpc, name = _recipes(row), _name(row)
    vpc = column.vpc if by_vpc else 0
    values = row.get(data, {})
    text = values.get(column.key)
    # A row of Table 1 that stands in another table has numbers for the columns of Table 1 only.
    if not text and (column.key.isdigit() or (column.network, column.metric) == (NETWORK, "top1")):
        text = values.get(str(column.vpc), values.get("0"))
    storage, full = _storage(name, vpc, data), _storage(WHOLE, 0, data)
    return Cell(
        label=row["label"],
        name=name,
        recipe=at_most(vpc, by_vpc) if by_vpc else "",
        vpc=vpc,
        network=column.network,
        metric=column.metric,
        printed=Printed.parse(text) if text else None,
        storage=storage,
        storage_share=100 * storage.mean / full.mean if storage and full else 0.0,
    )


def _recipes(row: dict[str, Any]) -> dict[str, str]:
    """A row's recipes by videos per class; none for all real clips."""
    written = row.get("recipe", {})
    return written if isinstance(written, dict) else {"1": written}


def _name(row: dict[str, Any]) -> str:
    return _recipes(row)["1"].rpartition("/")[2] if _recipes(row) else WHOLE


def _storage(name: str, vpc: int, data: str) -> Printed | None:
    (row,) = [row for row in _content()["table2"]["rows"] if _name(row) == name] or [{}]
    text = row.get(data, {}).get(str(vpc))
    return Printed.parse(text) if text else None
