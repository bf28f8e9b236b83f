"""Recipes: TOML files with options of verbs. PRISM ships some of them in this folder."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from prism.condensation.options import CondenseConfig
from prism.config import Options, described, with_options
from prism.errors import ConfigError, nearest
from prism.evaluation.options import EvaluateConfig
from prism.exports.options import ExportConfig
from prism.ingestion.options import IngestConfig, MotionConfig
from prism.machine.text_io import read_text, reason
from prism.selection.options import SelectConfig

RECIPES = Path(__file__).parent
"""The folder of the recipes that PRISM ships."""

VERBS = MotionConfig, IngestConfig, SelectConfig, CondenseConfig, EvaluateConfig, ExportConfig
SECTIONS: dict[str, type[Options]] = {config.section: config for config in VERBS}
"""The options of each verb that a recipe may have a table for."""


def read_recipe(*paths: str | Path, vpc: int | None = None) -> dict[str, dict[str, Any]]:
    """A table of options for each verb, from TOML recipes, of which the later ones win.

    A path is a file, or the name of a recipe that PRISM ships: `miniucf`, `ablations/dm`. A recipe may say
    `extends = "other.toml"`, a path relative to itself, over whose tables its own are laid. Options of a verb that
    has a `vpc` may depend on it, `lr = { 1 = 1.0, 5 = 25.0 }`: they are those of `vpc` or, without it, of the
    recipe's own; 0 stands for a use without such options, and refuses none. No part that an option names is
    imported. A file, table, key or value that cannot be used is a ConfigError.
    """
    recipe: dict[str, dict[str, Any]] = {}
    for path in paths:
        tables = _extended(_find_recipe(path), ())
        for section, values in tables.items():
            if section not in SECTIONS or not isinstance(values, dict):
                what = f"'[{section}]' in recipe '{path}' is not a table of options of a verb"
                raise ConfigError(f"{what}.{nearest(section, SECTIONS)}")
        recipe = _overlaid(recipe, tables)
    # Checked when all are laid over each other: an option may need one of a recipe below it.
    try:
        for section, values in recipe.items():
            default = SECTIONS[section]()
            if "vpc" in described(type(default)):
                number = values.get("vpc") if vpc is None else vpc
                recipe[section] = of_vpc(values, number if type(number) is int else 1)
            with_options(default, recipe[section])
    except ConfigError as error:
        named = " and ".join(f"'{path}'" for path in paths)
        raise ConfigError(f"recipe {named}: {error}") from None
    return recipe


def of_vpc(options: Mapping[str, Any], vpc: int) -> dict[str, Any]:
    """The options; one by videos per class has the value of the largest number up to `vpc`, of the least for 0."""
    found = dict(options)
    for key, by_vpc in options.items():
        if isinstance(by_vpc, dict):
            try:
                of_number = {int(number): value for number, value in by_vpc.items()}
                found[key] = of_number[max(one for one in of_number if one <= (vpc or min(of_number)))]
            except ValueError:
                raise ConfigError(f"{key} = {by_vpc} in a recipe has no value for --vpc {vpc}.") from None
    return found


@cache
def shipped_recipes() -> dict[str, str]:
    """The recipes that PRISM ships: the name of each, and the line that it begins with."""
    paths = {path.relative_to(RECIPES).with_suffix("").as_posix(): path for path in RECIPES.rglob("*.toml")}
    return {name: read_text(paths[name]).partition("\n")[0].removeprefix("# ") for name in sorted(paths)}


def _find_recipe(path: str | Path) -> Path:
    name, shipped = Path(path).as_posix(), shipped_recipes()
    if name in shipped and not Path(path).is_file():
        return RECIPES / f"{name}.toml"
    if Path(path).exists():
        return Path(path)
    raise ConfigError(f"recipe '{path}' does not exist.{nearest(name, shipped) or ' prism recipes lists them.'}")


def _extended(path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    """The tables of a recipe, laid over those of the recipe that it extends."""
    if path.resolve() in below:
        raise ConfigError(f"recipe '{path}' extends itself in a circle.")
    try:
        own = tomllib.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"recipe '{path}' cannot be read: {reason(error)}.") from None
    if "extends" not in own:
        return own
    if not isinstance(base := own.pop("extends"), str):
        raise ConfigError(f"extends = {base!r} in recipe '{path}', but it must be the path of a recipe.")
    return _overlaid(_extended(path.parent / base, (*below, path.resolve())), own)


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for section, values in above.items():
        both = isinstance(values, dict) and isinstance(merged.get(section), dict)
        merged[section] = {**merged[section], **values} if both else values
    return merged
