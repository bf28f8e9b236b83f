"""The plan of a reproduction: the sets to make and the scores to measure, each with its options and file."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prism.artifacts.estimates import Estimate, Sample, sample_of
from prism.artifacts.store import ClipStore
from prism.condensation.condense import resolve
from prism.condensation.options import CondenseConfig
from prism.config import as_arguments, as_dict, with_options
from prism.errors import ConfigError
from prism.evaluation.evaluate import passes
from prism.evaluation.options import EvaluateConfig
from prism.ingestion.options import IngestConfig
from prism.networks.build import build_for
from prism.recipes import RECIPES, of_vpc, read_recipe
from prism.reports.rows import Row
from prism.reports.text import significant
from prism.reproduction.paper import Cell, Exhibit, content_of, data_sets
from prism.selection.options import SelectConfig

Tables = Mapping[str, Mapping[str, Any]]
"""Options by section (verb), in the form of a recipe."""


@dataclass(frozen=True)
class SetStep:
    """A set to make from a store's clips, and its file."""

    path: Path
    store: ClipStore
    config: CondenseConfig | SelectConfig

    @property
    def command(self) -> str:
        places = [str(self.store.path), "-o", str(self.path)]
        places += ["--resume"] * isinstance(self.config, CondenseConfig)
        return shlex.join(["prism", self.config.section, *places, *as_arguments(self.config)])


@dataclass(frozen=True)
class ScoreStep:
    """A set to score on a store, and the result's file; if `made` is None, all real clips are trained on."""

    path: Path
    store: ClipStore
    config: EvaluateConfig
    made: SetStep | None
    label: str

    @property
    def command(self) -> str:
        what = [str(self.made.path)] if self.made else ["--train", str(self.store.path)]
        places = ["--data", str(self.store.path), "-o", str(self.path), "--label", self.label, "--resume"]
        return shlex.join(["prism", "evaluate", *what, *places, *as_arguments(self.config)])


@dataclass(frozen=True)
class Line:
    """A number of the paper on one store, the steps that measure it, and the results so far.

    Attributes:
        is_same_data: whether the store holds the paper's data set `data`; else numbers must not be compared.
        sets: one step for each condensation seed; none for all real clips.
        scores: one step for each set, or a single step for all real clips.
        row: the results so far.
        failures: sentences on sets and networks that diverged.
        num_diverged: number of networks that diverged, including the networks of diverged sets.
        lead: lead over random selection (same data, videos per class, network and score); None for a single set.
    """

    cell: Cell
    store: ClipStore
    data: str
    is_same_data: bool
    sets: tuple[SetStep, ...]
    scores: tuple[ScoreStep, ...]
    row: Row | None = None
    failures: tuple[str, ...] = ()
    num_diverged: int = 0
    lead: Estimate | None = None

    @property
    def ours(self) -> Sample | None:
        """The scores of each set's networks; None if there are none yet, or if a set or network diverged."""
        # A mean without the diverged networks would mislead. Data of up to five classes has no top-5 score.
        if self.row is None or self.failures or self.cell.metric not in self.row.first.metrics:
            return None
        return sample_of(self.row.results, self.cell.metric)

    @property
    def score(self) -> str:
        if self.failures:
            return f"{self.num_diverged} of {sum(len(step.config.all_seeds) for step in self.scores)} diverged"
        return self.ours.in_percent if self.ours else "–"

    @property
    def size(self) -> str:
        """Stored frames as float32 in MiB, with the share of all training clips in percent."""
        if not self.row:
            return "–"
        size = self.row.mean(lambda one: one.subject.float32_bytes / 2**20)
        return f"{significant(size)} ({100 * self.row.share:.1f} %)"


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
    networks: Collection[str] = (),
) -> list[Line]:
    """The line of every cell of an exhibit on every store; the arguments are those of `prism.reproduce`.

    A store is compared with the paper's data set that its layout names; any other store with the exhibit's first
    data set, whose settings it gets. Each store, data set and scale has a folder of its own in `folder`.
    """
    if scale not in list(scales := content_of("scales.toml")):
        raise ConfigError(f"scale = {scale!r}, but it must be one of {', '.join(scales)}.")
    if type(seeds) is not int or seeds < 1:
        raise ConfigError(f"seeds = {seeds!r}, but it must be at least 1.")
    lines = []
    for store in stores:
        data, is_same = _data_of(store, exhibit)
        own = folder / f"{data.lower()}-{store.fingerprint[:8]}-{scale}"
        cells = exhibit.cells[data]
        _check_known("vpc", vpc, sorted({cell.vpc for cell in cells} - {0}), exhibit)
        _check_known("row", rows, list(dict.fromkeys(cell.name for cell in cells)), exhibit)
        _check_known("network", networks, list(dict.fromkeys(cell.network for cell in cells)), exhibit)
        cells = [c for c in cells if (not vpc or c.vpc in (0, *vpc)) and (not networks or c.network in networks)]
        made: dict[CondenseConfig | SelectConfig, SetStep] = {}
        for cell in (cell for cell in cells if not rows or cell.name in rows):
            store.require_vpc(max(1, cell.vpc), f"{exhibit.name}.vpc")
            # Recipes are given as paths: a file in the working directory may have the same name.
            shipped = [RECIPES / f"{name}.toml" for name in (data_sets()[data], cell.recipe) if name]
            of_row, last = (read_recipe(*paths, vpc=cell.vpc) for paths in (shipped, recipes))
            sources = of_row, scales[scale], last
            sets = [_set_step(cell, store, own, sources, seed) for seed in range(seeds)] if cell.recipe else []
            for one in sets:
                if (other := made.setdefault(one.config, one)).path != one.path:
                    said = f"'{other.path.name}' and '{one.path.name}' are one set by the recipes"
                    raise ConfigError(f"{said}. Leave out what makes these rows equal.")
            scores = [_score_step(cell, store, own, sources, one) for one in sets or (None,)]
            lines.append(Line(cell, store, data, is_same, tuple(sets), tuple(scores)))
    return lines


def _check_known(what: str, wanted: Collection[Any], known: Sequence[Any], exhibit: Exhibit) -> None:
    if lacking := [one for one in wanted if one not in known]:
        raise ConfigError(f"{what} = {lacking[0]!r}, but {exhibit.name} has {', '.join(map(str, known))}.")


def _data_of(store: ClipStore, exhibit: Exhibit) -> tuple[str, bool]:
    """The paper's data set that a store is compared with, and whether the store holds the paper's clips of it."""
    settings = store.header.settings
    of_layout = {recipe: data for data, recipe in data_sets().items()}
    data = of_layout.get(str(settings.get("layout")))
    if data is None:
        return next(iter(exhibit.cells)), False
    if data not in exhibit.cells:
        about = f"{exhibit.name} of the paper is about {' and '.join(exhibit.cells)}"
        raise ConfigError(f"{about}, but store '{store.path}' holds {data}.")
    own = as_dict(with_options(IngestConfig(), read_recipe(RECIPES / f"{data_sets()[data]}.toml")["ingest"]))
    sampled = ("official_split", "num_frames", "sampling", "stride", "fps", "size")
    return data, all(settings.get(name) == own.get(name) for name in sampled)


Sources = tuple[Tables, Tables, Tables]
"""Options by source, of which the later ones win: data set and row, scale, the user's recipes."""


def _options(section: str, cell: Cell, *sources: Tables) -> dict[str, Any]:
    return {key: value for tables in sources for key, value in of_vpc(tables.get(section, {}), cell.vpc).items()}


def _set_step(cell: Cell, store: ClipStore, folder: Path, sources: Sources, seed: int) -> SetStep:
    default = SelectConfig() if "select" in read_recipe(RECIPES / f"{cell.recipe}.toml") else CondenseConfig()
    of_row = _options(default.section, cell, *sources[:2]) | {"vpc": cell.vpc}
    config = with_options(default, of_row | _options(default.section, cell, sources[2]))
    _check_row("vpc", config.vpc, cell.vpc, cell)
    _check_row("method", config.method, of_row.get("method", default.method), cell)
    _check_row("seed", config.seed, default.seed, cell)
    if isinstance(config, CondenseConfig):
        # Sets under the same networks would share an error that is in no interval over sets.
        config = resolve(replace(config, seed=seed, network_seed=config.network_seed + seed))
    else:
        # The embedder determines a choice by embeddings: with one embedder, all seeds would give the same set.
        config = replace(config, seed=seed, embedder_seed=config.embedder_seed + seed).resolved()
    return SetStep(folder / f"{cell.name}-vpc{cell.vpc}-seed{seed}.safetensors", store, config)


def _check_row(option: str, found: object, own: object, cell: Cell) -> None:
    if found != own:
        said = f"{option} = {found!r} by the recipes, but row '{cell.label}' has {own!r}"
        raise ConfigError(f"{said}. Leave it out of the recipe.")


def _score_step(cell: Cell, store: ClipStore, folder: Path, sources: Sources, made: SetStep | None) -> ScoreStep:
    row, scale, last = sources
    own = {"model": cell.network} | scale.get("networks", {}).get(cell.network, {})
    own |= {} if made else scale.get("whole", {})
    config = with_options(EvaluateConfig(), _options("evaluate", cell, row, scale, {"evaluate": own}, last))
    _check_row("model", config.model, cell.network, cell)
    # Refuse a store without clips to score, or with clips too small, now rather than after hours of condensing.
    passes(store, config)
    build_for(store, config.model, "meta", width=config.width, hidden=config.hidden)
    if made:
        # Each set has networks of its own: the effect of a shared network seed would not show between sets.
        config = replace(config, seed=config.seed + made.config.seed * config.seeds)
    path = folder / f"{made.path.stem if made else cell.name}.{cell.network}.json"
    return ScoreStep(path, store, config, made, f"{cell.label}, VPC {cell.vpc}" if made else cell.label)
