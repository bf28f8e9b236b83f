"""Recipes: TOML files with options of verbs. PRISM ships the recipes in this folder."""

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
"""The options class of each verb for which a recipe may have a table."""


def read_recipe(*paths: str | Path, vpc: int | None = None) -> dict[str, dict[str, Any]]:
    """Options by verb from TOML recipes, of which the later ones win.

    A path is a file, or the name of a recipe that PRISM ships: `miniucf`, `ablations/dm`. A recipe may begin with
    `extends = "other.toml"`, a path relative to its own file, and replace options of that recipe. An option of a
    verb with `vpc` may depend on the videos per class, `lr = { 1 = 1.0, 5 = 25.0 }`: the value is for `vpc` or,
    if that is None, for the recipe's own `vpc`; 0 takes the value of the least number. Custom parts in options are
    not imported. ConfigError if a file, table, key or value cannot be used.
    """
    recipe: dict[str, dict[str, Any]] = {}
    for path in paths:
        tables = _extended(_find_recipe(path), ())
        for section, values in tables.items():
            if section not in SECTIONS or not isinstance(values, dict):
                what = f"'[{section}]' in recipe '{path}' is not a table of options of a verb"
                raise ConfigError(f"{what}.{nearest(section, SECTIONS)}")
        recipe = _overlaid(recipe, tables)
    # Checked after all recipes are merged: an option may need an option of an earlier recipe.
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
    """The options, with each dictionary replaced by the value of its largest key up to `vpc`; 0: its least key."""
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
    """First line of each recipe that PRISM ships, by name."""
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
    """The tables of a recipe, merged over the tables of the recipe that it extends."""
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
