"""The one validator: the range of an option is said once, in its annotation.

    vpc: Annotated[int, at_least(1)] = 1
    \"\"\"Synthetic videos per class.\"\"\"

From the annotation come the check, its sentence and the range in the help; the text of the help is the docstring
below it. The options of a verb are a frozen dataclass of such fields, in the `options.py` of its room. Nothing
here imports torch, so that `prism --help` stays fast.
"""

import difflib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from prism.errors import ConfigError
from prism.parts import Parts

MAX_COUNT = 2**40
"""No count is larger: beyond 64 bits the libraries below would raise errors of their own."""
PLAIN: tuple[type, ...] = (bool, int, float, list, dict, tuple, type(None))
"""Values of a recipe that are neither a part nor its name."""


@dataclass(frozen=True)
class Range:
    """A range of values.

    Attributes:
        text: the range, in words that follow `it must be`.
        holds: whether a value lies in it.
    """

    text: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Group:
    """The heading in the help of an option and of those that follow it."""

    heading: str


@dataclass(frozen=True)
class OmitDefault:
    """An option that is recorded only where it is used: without it a file has the bytes that it always had."""


def at_least(low: float) -> Range:
    """A number from `low` on."""
    return Range(f"at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Range:
    """A number in low..high, both included."""
    return Range(f"between {low} and {high}", lambda value: low <= value <= high)


def above(low: float, high: float, said: str) -> Range:
    """A number above `low` and at most `high`, which sentences write as `said`."""
    return Range(f"above {low} and at most {said}", lambda value: low < value <= high)


SHARE = Range("at least 0 and below 1", lambda value: 0 <= value < 1)
RATE = Range("positive and below 1e+38", lambda value: 0 < value < 1e38)
"""Learning rates from 1e38 on overflow float32."""


@dataclass(frozen=True)
class Field:
    """An option as its annotation describes it.

    Attributes:
        kind: int, float, bool or str.
        choices: the texts that it may be; empty where it is free.
        parts: the kind of part that it names, or None.
        promise: what its value must be, or None.
        group: its heading in the help, or empty.
        is_rare: it is recorded only where it differs from its default.
    """

    name: str
    kind: type
    default: Any
    choices: tuple[str, ...]
    parts: Parts | None
    promise: Range | None
    group: str
    is_rare: bool

    @property
    def range(self) -> str:
        """Its values in words; empty where the type alone tells them."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        promise = self.parts.promise if self.parts else self.promise and self.promise.text
        return promise or ""

    def problem(self, value: Any) -> str | None:
        """The requirement that a value breaks, in words that follow `it must be`, or None."""
        if self.parts and not isinstance(value, PLAIN):
            return None if not isinstance(value, str) or self.parts.is_name(value) else self.parts.promise
        if type(value) is not self.kind:
            return f"of type {self.kind.__name__}"
        if self.choices:
            return None if value in self.choices else self.range
        if self.kind is int and value > MAX_COUNT:
            return f"at most {MAX_COUNT}"
        return None if self.promise is None or self.promise.holds(value) else self.range


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
        known = described(type(self))
        for field in known.values():
            if field.parts:
                self._take_in(field, field.parts)
        for name, field in known.items():
            value = getattr(self, name)
            if field.kind is float and type(value) is int:
                object.__setattr__(self, name, value := float(value))
            if problem := field.problem(value):
                raise self.refusal(name, problem)
        for name, fits, promise in self.relations():
            if not fits:
                raise self.refusal(name, promise)

    def _take_in(self, field: Field, parts: Parts) -> None:
        """Set the verb's options that a part brings, and write one of our parts as its short name."""
        value, known = getattr(self, field.name), described(type(self))
        for key, brought in parts.options_of(value).items():
            if key in known and getattr(self, key) == known[key].default:
                object.__setattr__(self, key, brought)
            elif key in known and getattr(self, key) != brought:
                raise self.refusal(key, f"{brought!r}, as in the part that is given")
        if (name := parts.name_of(value, known)) in parts.registry:
            object.__setattr__(self, field.name, name)

    def refusal(self, name: str, promise: str) -> ConfigError:
        """The error that names an option, its value and what that must be."""
        value, parts = getattr(self, name), described(type(self))[name].parts
        guess = nearest(value, parts.registry) if parts and promise == parts.promise else ""
        return ConfigError(f"{self.section}.{name} = {value!r}, but it must be {promise}.{guess}")

    def relations(self) -> Iterator[tuple[str, bool, str]]:
        """For each option that depends on others: its name, whether it fits them, and what it must be."""
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
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        found[field.name] = Field(
            field.name,
            str if choices else kind,
            field.default,
            choices,
            next((mark for mark in said if isinstance(mark, Parts)), None),
            next((mark for mark in said if isinstance(mark, Range)), None),
            group,
            any(isinstance(mark, OmitDefault) for mark in said),
        )
    return found


def as_dict(config: Options) -> dict[str, Any]:
    """The options as files record them: parts by their names, rare ones only where they are used."""
    known = described(type(config))
    values = {name: getattr(config, name) for name in known}
    return {
        name: field.parts.name_of(values[name], known) if field.parts else values[name]
        for name, field in known.items()
        if not field.is_rare or values[name] != field.default
    }


def as_arguments(options: Mapping[str, Any]) -> list[str]:
    """Options as a command line gives them: `--vpc 5 --no-fully-learnable`."""
    given: list[str] = []
    for key, value in options.items():
        name = key.replace("_", "-")
        given += [f"--{'' if value else 'no-'}{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]
    return given


def chosen(config: Options) -> dict[str, Any]:
    """The options that differ from their defaults, as files record them."""
    defaults = as_dict(type(config)())
    return {key: value for key, value in as_dict(config).items() if value != defaults.get(key)}


def as_path(given: Any, what: str) -> Path:
    """An argument that names a file or a folder.

    Args:
        given: the argument, whatever it is.
        what: what it must be, with its article, for the sentence about another thing.

    Raises:
        ConfigError: it is no path.
    """
    if isinstance(given, str | os.PathLike):
        return Path(given)
    raise ConfigError(f"{what} is wanted, not {short_repr(given)}.")


def as_list(given: Any, what: str) -> list[Any]:
    """An argument that lists several things, which are checked where they are used.

    Args:
        given: the argument, whatever it is; a text is no list of its letters.
        what: the plural of what it lists, for the sentence about another thing.

    Raises:
        ConfigError: it is no list.
    """
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | os.PathLike):
        return list(given)
    raise ConfigError(f"a list of {what} is wanted, not {short_repr(given)}.")


def short_repr(value: Any) -> str:
    """A value as a sentence shows it."""
    return shorten(repr(value), 60, placeholder=" ...")


def nearest(word: str, allowed: Iterable[str], said: Callable[[str], str] = str) -> str:
    """` Did you mean 'x'?` for the most similar allowed word, or nothing.

    Args:
        word: the one that is not allowed.
        allowed: those that are.
        said: how the sentence writes one of them.
    """
    allowed = list(allowed)
    # `lr_img` is as far from `lr` as `epoch` from `vpc`, but it begins with it.
    longer = [one for one in allowed if word.startswith(one)]
    found = difflib.get_close_matches(word, allowed, n=1, cutoff=0.6) or longer[:1]
    return f" Did you mean '{said(found[0])}'?" if found else ""


def with_options(
    config: AnyOptions, options: Mapping[str, Any], others: Collection[str] = frozenset()
) -> AnyOptions:
    """Options with some of them replaced, as the verbs take them in Python and recipes and files hold them.

    A part brings its own options: `insertion=GradientConflict(epsilon=0.1)` also sets the verb's `epsilon`.

    Args:
        config: the options to start from.
        options: new values by name.
        others: names that the caller takes besides, for the sentence about a misspelt one.

    Raises:
        ConfigError: a key is unknown (the nearest valid one is named), a value has the wrong type or lies
            outside its range, or it is not the one that a part brings.
    """
    known, brought = described(type(config)), {}
    for key, value in options.items():
        if key not in known:
            guess = nearest(
                key, [*known, *others], lambda name: f"{config.section}.{name}" if name in known else name
            )
            raise ConfigError(f"unknown key '{config.section}.{key}'.{guess}")
        if parts := known[key].parts:
            brought |= {name: item for name, item in parts.options_of(value).items() if name in known}
    for key in brought.keys() & options.keys():
        if options[key] != brought[key]:
            promise = f"{brought[key]!r}, as in the part that is given"
            raise ConfigError(f"{config.section}.{key} = {options[key]!r}, but it must be {promise}.")
    return replace(config, **{**brought, **options})
