"""Options of verbs and their validator: the range of an option is stated once, in its annotation.

    vpc: Annotated[int, at_least(1)] = 1
    \"\"\"Synthetic videos per class.\"\"\"

The annotation gives the check, the message of its error and the range in the help; the docstring below it is the
text of the help. Nothing here imports torch, so that `prism --help` stays fast.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from prism.errors import ConfigError, nearest
from prism.parts import Parts


@dataclass(frozen=True)
class Range:
    """Values that an option may have: `text` follows `it must be`, and `holds` tests a value of the right type."""

    text: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Group:
    """The heading in the help above an option and the options that follow it."""

    heading: str


@dataclass(frozen=True)
class OmitDefault:
    """Mark of an option that files record only if it differs from its default: it is newer than their format."""


def at_least(low: float) -> Range:
    return Range(f"at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Range:
    return Range(f"between {low} and {high}", lambda value: low <= value <= high)


SHARE = Range("at least 0 and below 1", lambda value: 0 <= value < 1)
# Learning rates from 1e38 on overflow float32.
RATE = Range("positive and below 1e+38", lambda value: 0 < value < 1e38)


@dataclass(frozen=True)
class Field:
    """An option as its annotation describes it."""

    kind: type
    default: Any
    choices: tuple[str, ...]
    parts: Parts | None
    limits: Range | None
    group: str
    is_rare: bool

    @property
    def range(self) -> str:
        """The allowed values in words; empty if every value of the type is allowed."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return self.parts.promise if self.parts else self.limits.text if self.limits else ""

    def problem(self, value: Any) -> str | None:
        """The requirement that a value breaks, in words that follow `it must be`, or None."""
        if self.parts and isinstance(value, str):
            return None if self.parts.match(value) else self.range
        if self.parts and not isinstance(value, int | float | list | dict | tuple | None):
            self.parts.check(getattr(value, "func", value))
            return None
        if type(value) is not self.kind:
            return f"of type {self.kind.__name__}"
        if self.choices:
            return None if value in self.choices else self.range
        return None if self.limits is None or self.limits.holds(value) else self.range


@dataclass(frozen=True)
class Options:
    """Base of the options of a verb, which are checked when made; `class MyConfig(Options, section="verb")`.

    A part also sets the verb's options of its fields' names: `insertion=GradientConflict(epsilon=0.1)`.
    """

    section: ClassVar[str]

    def __init_subclass__(cls, section: str = "") -> None:
        super().__init_subclass__()
        cls.section = section or cls.section

    def __post_init__(self) -> None:
        known, of_parts = described(type(self)), set[str]()
        for name, field in known.items():
            value = getattr(self, name)
            if field.parts and field.problem(value) is None:
                brought = field.parts.options_of(value)
                for key in (key for key in brought if key in known):
                    if getattr(self, key) not in (known[key].default, brought[key]):
                        raise self.refusal(key, f"{brought[key]!r}, as in the part that is given")
                    object.__setattr__(self, key, brought[key])
                    of_parts.add(key)
                if (short := field.parts.name_of(value, known)) in field.parts.registry:
                    object.__setattr__(self, name, short)
        for name, field in known.items():
            value = getattr(self, name)
            if field.kind is str and isinstance(value, os.PathLike):
                object.__setattr__(self, name, value := os.fspath(value))
            if type(value).__module__ == "numpy":
                object.__setattr__(self, name, value := value.tolist())
            if field.kind is float and type(value) is int:
                object.__setattr__(self, name, value := float(value))
            if problem := field.problem(value):
                problem += ", also where a part has a field of that name" * (name in of_parts)
                raise self.refusal(name, problem)
        for name, fits, promise in self.relations():
            if not fits:
                raise self.refusal(name, promise)

    def refusal(self, name: str, promise: str) -> ConfigError:
        """The error that names an option, its value, and what the value must be."""
        value, parts = getattr(self, name), described(type(self))[name].parts
        guess = nearest(value, parts.registry) if parts and promise == parts.promise else ""
        return ConfigError(f"{self.section}.{name} = {short_repr(value)}, but it must be {promise}.{guess}")

    def relations(self) -> Iterator[tuple[str, bool, str]]:
        """Name of each option that depends on other options, whether it fits them, and what it must be."""
        return iter(())


AnyOptions = TypeVar("AnyOptions", bound=Options)


@cache
def described(config_type: type[Options]) -> dict[str, Field]:
    """The options of a verb by name, in the order of the class."""
    hints, group, found = get_type_hints(config_type, include_extras=True), "", {}
    for field in fields(config_type):
        hint = hints[field.name]
        kind, *marks = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        by_type = {type(mark): mark for mark in marks}
        group = by_type[Group].heading if Group in by_type else group
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        limits = by_type.get(Parts), by_type.get(Range), group, OmitDefault in by_type
        found[field.name] = Field(str if choices else kind, field.default, choices, *limits)
    return found


def as_dict(config: Options) -> dict[str, Any]:
    """The options as files record them, with parts by their names."""
    known, values = described(type(config)), vars(config)
    return {
        name: field.parts.name_of(values[name], known) if field.parts else values[name]
        for name, field in known.items()
        if not field.is_rare or values[name] != field.default
    }


def chosen(config: Options) -> dict[str, Any]:
    """The options that differ from their defaults, as files record them."""
    defaults = as_dict(type(config)())
    return {key: value for key, value in as_dict(config).items() if value != defaults.get(key)}


def as_arguments(config: Options) -> list[str]:
    """The options that differ from their defaults, as words of a command line: `--vpc 5 --no-fully-learnable`."""
    given: list[str] = []
    for key, value in chosen(config).items():
        name = key.replace("_", "-")
        given += [f"--{'' if value else 'no-'}{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]
    return given


def as_path(given: Any, what: str = "the path of an output") -> Path:
    """The given path; ConfigError for any other argument: `the path of an output is wanted, not 5.`"""
    if isinstance(given, str | os.PathLike):
        return Path(given)
    raise ConfigError(f"{what} is wanted, not {short_repr(given)}.")


def as_list(given: Any, what: str) -> list[Any]:
    """The given iterable as a list; ConfigError for any other argument, also for a text or path."""
    if isinstance(given, Iterable) and not isinstance(given, str | os.PathLike):
        return list(given)
    raise ConfigError(f"a list of {what} is wanted, not {short_repr(given)}.")


def short_repr(value: Any) -> str:
    """A value as messages show it, in at most 60 characters."""
    return shorten(repr(value), 60, placeholder=" ...")


def with_options(config: AnyOptions, options: Mapping[str, Any], others: Collection[str] = ()) -> AnyOptions:
    """The options of `config` with some of them replaced.

    ConfigError for an unknown key, with the nearest known key or name in `others`, which the caller takes as well.
    """
    known = described(type(config))
    for key in options.keys() - known.keys():
        guess = nearest(key, [*known, *others], lambda name: f"{config.section}.{name}" if name in known else name)
        raise ConfigError(f"unknown key '{config.section}.{key}'.{guess}")
    return replace(config, **options)
