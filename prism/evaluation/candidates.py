"""Candidates: the networks and hyper-parameters that a ranking puts in order, from a TOML file or from Python."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prism.config import Options, with_options
from prism.errors import ConfigError
from prism.evaluation.options import Candidate
from prism.machine.texts import read_text

BUILT_IN = Path(__file__).with_name("candidates.toml")
"""The file of the candidates that PRISM ships."""
FEWEST = 3
"""Two candidates have one order or the other: no rank correlation can be told from chance."""

Candidates = Mapping[str, Candidate | Mapping[str, Any]]
"""Candidates by their names, each as a value or as its options."""


def read_candidates(given: Candidates | str | Path | None = None) -> dict[str, Candidate]:
    """The candidates by name, in the order in which they are given.

    Args:
        given: a TOML file with a table for each candidate, or a mapping like it; None for those that PRISM ships.

    Raises:
        ConfigError: the file is missing or not TOML, two candidates have one name or the same options, one has an
            option that is unknown or out of range (the nearest valid one is named), or there are fewer than 3.
    """
    source = "the candidates"
    if given is None or isinstance(given, str | Path):
        source = f"candidates '{given or BUILT_IN.name}'"
        given = _tables(Path(given or BUILT_IN), source)
    if not isinstance(given, Mapping):
        raise ConfigError(f"{source} are {given!r}, but they must be a mapping of names, or a TOML file.")
    found: dict[str, Candidate] = {}
    for name, options in given.items():
        found[name] = candidate = _candidate(name, options, source)
        twin = next((other for other, value in found.items() if value == candidate and other != name), None)
        if twin is not None:
            raise ConfigError(f"'{twin}' and '{name}' of {source} have the same options. Leave one of them out.")
    if len(found) < FEWEST:
        raise ConfigError(f"{source} are {len(found)}, but a ranking needs at least {FEWEST}: better 12 or more.")
    return found


def _tables(path: Path, source: str) -> dict[str, Any]:
    try:
        # tomllib refuses two tables of one name.
        return tomllib.loads(read_text(path).replace("\r\n", "\n"))
    except FileNotFoundError:
        raise ConfigError(f"{source} do not exist.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{source} cannot be read: {error}.") from None


def _candidate(name: str, options: Candidate | Mapping[str, Any], source: str) -> Candidate:
    if isinstance(options, Candidate):
        return options
    if isinstance(options, Options) or not isinstance(options, Mapping):
        raise ConfigError(f"'{name}' of {source} is {options!r}, but it must be a table of options, [{name}].")
    try:
        return with_options(Candidate(), options)
    except ConfigError as error:
        raise ConfigError(f"'{name}' of {source}: {error}") from None
