"""The plan of a reproduction: which sets to make and what to score, each with its options and its file."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prism.artifacts.store import ClipStore
from prism.condensation.condense import resolve
from prism.condensation.options import CondenseConfig
from prism.config import as_arguments, chosen, with_options
from prism.errors import ConfigError
from prism.evaluation.options import EvaluateConfig
from prism.recipes import read_recipe
from prism.reproduction.paper import Cell, Exhibit, at_most, content_of, data_sets
from prism.selection.options import SELECTIONS, SelectConfig

Tables = Mapping[str, Mapping[str, Any]]
"""Options by section, as a recipe holds them."""


@dataclass(frozen=True)
class SetStep:
    """A set to make, and its file."""

    path: Path
    config: CondenseConfig | SelectConfig


@dataclass(frozen=True)
class ScoreStep:
    """A set to score (`made` None: all real clips), and the result's file."""

    path: Path
    config: EvaluateConfig
    made: SetStep | None
    label: str

    @property
    def seeds(self) -> range:
        """The seeds of its networks."""
        return range(self.config.seed, self.config.seed + self.config.seeds)


@dataclass(frozen=True)
class Place:
    """A cell of the paper's table on one store, with the steps that fill it.

    Attributes:
        is_same_data: whether the store holds the paper's data set `data`; else numbers must not be compared.
        sets: one for each condensation seed; none for all real clips.
        scores: one for each set, or one for all real clips.
    """

    cell: Cell
    store: ClipStore
    data: str
    is_same_data: bool
    sets: tuple[SetStep, ...]
    scores: tuple[ScoreStep, ...]


def plan(
    exhibit: Exhibit,
    stores: Sequence[ClipStore],
    folder: Path,
    *,
    scale: str = "full",
    seeds: int = 1,
    recipes: Sequence[str | Path] = (),
    vpc: Collection[int] = (),
    rows: Collection[str] = (),
) -> list[Place]:
    """Every cell of an exhibit on every store, with the steps that fill it, by the options of `prism.reproduce`.

    Each store is set against the paper's data set that its layout names, another one against the first of the
    exhibit, whose settings it takes. Each store, data set and scale has a folder of its own in `folder`.
    """
    if scale not in list(scales := content_of("scales.toml")):
        raise ConfigError(f"scale = {scale!r}, but it must be one of {', '.join(scales)}.")
    if type(seeds) is not int or seeds < 1:
        raise ConfigError(f"seeds = {seeds!r}, but it must be at least 1.")
    last, places = read_recipe(*recipes), []
    for store in stores:
        data, is_same = _data_of(store, exhibit)
        own = folder / f"{data.lower()}-{store.fingerprint[:8]}-{scale}"
        options = _Options(data, scales[scale], last)
        cells = exhibit.cells[data]
        _check_known("vpc", vpc, sorted({cell.vpc for cell in cells} - {0}), exhibit)
        _check_known("row", rows, list(dict.fromkeys(cell.name for cell in cells)), exhibit)
        cells = [cell for cell in cells if not vpc or cell.vpc in (0, *vpc)]
        for cell in (cell for cell in cells if not rows or cell.name in rows):
            store.require_vpc(max(1, cell.vpc), f"{exhibit.name}.vpc")
            sets = [_set_step(cell, own, options, seed) for seed in range(seeds)] if cell.recipe else []
            scores = [_score_step(cell, own, options, made) for made in sets or (None,)]
            places.append(Place(cell, store, data, is_same, tuple(sets), tuple(scores)))
    return places


def _check_known(what: str, wanted: Collection[Any], known: Sequence[Any], exhibit: Exhibit) -> None:
    if lacking := [one for one in wanted if one not in known]:
        raise ConfigError(f"{what} = {lacking[0]!r}, but {exhibit.name} has {', '.join(map(str, known))}.")


def _data_of(store: ClipStore, exhibit: Exhibit) -> tuple[str, bool]:
    """The paper's data set that a store is set against, and whether the store holds it."""
    of_layout = {recipes["1"]: data for data, recipes in data_sets().items()}
    data = of_layout.get(str(store.header.settings.get("layout")))
    if data is None:
        return next(iter(exhibit.cells)), False
    if data not in exhibit.cells:
        raise ConfigError(
            f"{exhibit.name} of the paper is about {' and '.join(exhibit.cells)}, "
            f"but store '{store.path}' holds {data}."
        )
    return data, True


@dataclass(frozen=True)
class _Options:
    """Options by their sources, the later the stronger: data set, row, scale, the user's recipes."""

    data: str
    scale: Tables
    last: Tables

    def of(self, section: str, cell: Cell, extra: Tables) -> dict[str, Any]:
        """The options of a section for a cell; `extra` stands between the scale and the user's recipes."""
        of_data = at_most(max(1, cell.vpc), data_sets()[self.data])
        merged: dict[str, Any] = {}
        for tables in (read_recipe(*filter(None, (of_data, cell.recipe))), self.scale, extra, self.last):
            for key, value in tables.get(section, {}).items():
                merged[key] = at_most(max(1, cell.vpc), value) if isinstance(value, dict) else value
        return merged


def _set_step(cell: Cell, folder: Path, options: _Options, seed: int) -> SetStep:
    default = SelectConfig() if "select" in read_recipe(cell.recipe) else CondenseConfig()
    verb = default.section
    config = with_options(default, options.of(verb, cell, {verb: {"vpc": cell.vpc}}) | {"seed": seed})
    of_row = replace(options, last={}).of(verb, cell, {})
    _check_row("vpc", config.vpc, cell.vpc, cell)
    _check_row("method", config.method, of_row.get("method", default.method), cell)
    if isinstance(config, CondenseConfig):
        # Sets that share their networks would share an error that no interval over sets can see.
        config = resolve(replace(config, network_seed=config.network_seed + seed))
    elif SELECTIONS.make(config.method, config).needs_embeddings:
        # Given its embedder, the choice is determined: without another one, all seeds would be the same set.
        config = replace(config, embedder_seed=seed)
    return SetStep(folder / f"{cell.name}-vpc{cell.vpc}-seed{seed}.safetensors", config)


def _check_row(option: str, found: object, own: object, cell: Cell) -> None:
    if found != own:
        raise ConfigError(
            f"{option} = {found!r} by the recipes, but row '{cell.label}' has {own!r}. Leave it out of the recipe."
        )


def _score_step(cell: Cell, folder: Path, options: _Options, made: SetStep | None) -> ScoreStep:
    own = {"model": cell.network} | options.scale.get("networks", {}).get(cell.network, {})
    own |= {} if made else options.scale.get("whole", {})
    config = with_options(EvaluateConfig(), options.of("evaluate", cell, {"evaluate": own}))
    _check_row("model", config.model, cell.network, cell)
    if made:
        # No two sets share networks: what a network's seed does would be in all of them, and not between them.
        config = replace(config, seed=config.seed + made.config.seed * config.seeds)
    stem = made.path.stem if made else cell.name
    path = folder / f"{stem}.{cell.network}.json"
    return ScoreStep(path, config, made, f"{cell.label}, VPC {cell.vpc}" if made else cell.label)


def command(step: SetStep | ScoreStep, store: ClipStore) -> str:
    """The command line of a step."""
    given = as_arguments(chosen(step.config))
    if isinstance(step, SetStep):
        return shlex.join(["prism", step.config.section, str(store.path), "-o", str(step.path), *given])
    what = [str(step.made.path)] if step.made else ["--train", str(store.path)]
    places = ["--data", str(store.path), "-o", str(step.path), "--label", step.label]
    return shlex.join(["prism", step.config.section, *what, *places, *given])
