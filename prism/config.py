"""The one validator: what an option may be is said once, in its annotation.

    vpc: Annotated[int, at_least(1)] = 1
    \"\"\"Synthetic videos per class.\"\"\"

The annotation gives the check, its sentence and the range in the help; the docstring below it is the help. The
options of a verb are a frozen dataclass of these, in the `options.py` of its room. Nothing here imports torch, so
`prism --help` stays fast.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from prism.errors import ConfigError
from prism.parts import Parts, fields_shared

MAX_COUNT = 2**40
"""No count is larger: beyond 64 bits the libraries below would raise errors of their own."""


@dataclass(frozen=True)
class Promise:
    """What a value must be.

    Attributes:
        text: in words that follow `it must be`.
        holds: whether a value is that.
    """

    text: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Group:
    """The heading in the help of an option and of those that follow it."""

    heading: str


@dataclass(frozen=True)
class Rare:
    """An option that is recorded only where it is used: without it a file has the bytes that it always had."""


def at_least(low: float) -> Promise:
    """A number from `low` on."""
    return Promise(f"at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Promise:
    """A number in low..high, both included."""
    return Promise(f"between {low} and {high}", lambda value: low <= value <= high)


def above(low: float, high: float, said: str) -> Promise:
    """A number above `low` and at most `high`, which sentences write as `said`."""
    return Promise(f"above {low} and at most {said}", lambda value: low < value <= high)


SHARE = Promise("at least 0 and below 1", lambda value: 0 <= value < 1)
RATE = Promise("positive and below 1e+38", lambda value: 0 < value < 1e38)
"""Learning rates from 1e38 on overflow float32."""


@dataclass(frozen=True)
class Field:
    """An option as its annotation describes it.

    Attributes:
        kind: int, float, bool or str.
        choices: the texts that it may be; empty where it is free.
        parts: the kind of part that it names, or None.
        promises: what its value must be.
        group: its heading in the help, or empty.
        is_rare: it is recorded only where it differs from its default.
    """

    name: str
    kind: type
    default: Any
    choices: tuple[str, ...]
    parts: Parts | None
    promises: tuple[Promise, ...]
    group: str
    is_rare: bool

    @property
    def range(self) -> str:
        """What it must be, in words; empty where the type says it all."""
        if self.parts:
            return self.parts.promise
        return f"one of {', '.join(self.choices)}" if self.choices else ", ".join(p.text for p in self.promises)

    def problem(self, value: Any) -> str | None:
        """What a value must be and is not, or None."""
        if self.parts and not isinstance(value, bool | int | float):
            return None if not isinstance(value, str) or self.parts.is_name(value) else self.parts.promise
        if type(value) is not self.kind:
            return f"of type {self.kind.__name__}"
        if self.choices:
            return None if value in self.choices else self.range
        if self.kind is int and value > MAX_COUNT:
            return f"at most {MAX_COUNT}"
        return next((promise.text for promise in self.promises if not promise.holds(value)), None)


@dataclass(frozen=True)
class Options:
    """Base of the options of a verb, which check themselves; `class MyConfig(Options, section="verb")`.

    Raises:
        ConfigError: an option has the wrong type, is out of range, or does not fit another one.
    """

    section: ClassVar[str]

    def __init_subclass__(cls, section: str = "") -> None:
        super().__init_subclass__()
        cls.section = section or cls.section

    def __post_init__(self) -> None:
        for name, field in described(type(self)).items():
            value = getattr(self, name)
            if field.kind is float and type(value) is int:
                object.__setattr__(self, name, value := float(value))
            if problem := field.problem(value):
                raise self.refusal(name, problem)
        for name, fits, promise in self.relations():
            if not fits:
                raise self.refusal(name, promise)

    def refusal(self, name: str, promise: str) -> ConfigError:
        """The error that names an option, its value and what that must be."""
        return ConfigError(f"{self.section}.{name} = {getattr(self, name)!r}, but it must be {promise}.")

    def relations(self) -> Iterator[tuple[str, bool, str]]:
        """For an option that depends on others its name, whether it fits them, and what it must be."""
        return iter(())


AnyOptions = TypeVar("AnyOptions", bound=Options)


@cache
def described(config_type: type[Options]) -> dict[str, Field]:
    """The options of a verb by name, in their order."""
    hints, group, found = get_type_hints(config_type, include_extras=True), "", {}
    for field in fields(config_type):
        hint = hints[field.name]
        kind, *said = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        group = next((mark.heading for mark in said if isinstance(mark, Group)), group)
        choices = _choices(kind)
        found[field.name] = Field(
            field.name,
            str if choices else kind,
            field.default,
            choices,
            next((mark for mark in said if isinstance(mark, Parts)), None),
            tuple(mark for mark in said if isinstance(mark, Promise)),
            group,
            any(isinstance(mark, Rare) for mark in said),
        )
    return found


def _choices(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def as_dict(config: Options) -> dict[str, Any]:
    """The options as files record them: parts by their names, rare ones only where they are used."""
    known = described(type(config))
    values = {name: getattr(config, name) for name in known}
    return {
        name: field.parts.name_of(values[name], tuple(known)) if field.parts else values[name]
        for name, field in known.items()
        if not field.is_rare or values[name] != field.default
    }


def nearest(word: str, allowed: list[str]) -> str:
    """` Did you mean 'x'?` for the most similar allowed word, or nothing."""
    found = difflib.get_close_matches(word, allowed, n=1, cutoff=0.5)
    return f" Did you mean '{found[0]}'?" if found else ""


def with_options(config: AnyOptions, options: Mapping[str, Any]) -> AnyOptions:
    """Options with some of them replaced, as the verbs take them in Python and recipes and files hold them.

    A part that is given as an object brings its fields: `insertion=GradientConflict(epsilon=0.1)` also sets
    `epsilon`, where the verb has an option of that name.

    Raises:
        ConfigError: a key is unknown (the nearest valid one is named), or a value has the wrong type or lies
            outside its range.
    """
    known, values = described(type(config)), dict(options)
    for key, value in options.items():
        if key not in known:
            guess = nearest(key, list(known)).replace("'", f"'{config.section}.", 1)
            raise ConfigError(f"unknown key '{config.section}.{key}'.{guess}")
        parts = known[key].parts
        if parts and not isinstance(value, str):
            values |= fields_shared(value, config)
            name = parts.name_of(value, tuple(known))
            values[key] = name if name in parts.homes else value
    return replace(config, **values)
