"""Parts: what a researcher may put in the place of something of ours, as an object or by its name.

A part is a small object whose fields are its options: `GradientConflict(epsilon=0.1)`. In Python it is given as it
is. On the command line and in recipes it has a name: a short one for the parts that PRISM ships (`gradient`), and
`package.module:Name`, or `package.module:Name(option=value)`, for one of your own. docs/extending.md has an
example of every kind.
"""

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from prism.errors import ConfigError

NAME = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)(\(.*\))?", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class Parts:
    """One kind of part: the names that PRISM gives to its own, and what every part of the kind must have.

    Attributes:
        kind: what a sentence calls it, as in `insertion rule`.
        homes: for each short name where the part lives, as `module:Name`.
        needs: the methods that a part must have.
    """

    kind: str
    homes: Mapping[str, str]
    needs: tuple[str, ...] = ()

    @property
    def promise(self) -> str:
        """What a value must be, in words."""
        return f"one of {', '.join(self.homes)}, or a part of your own as module:Name"

    def is_name(self, value: object) -> bool:
        """Whether a text could name a part; nothing is imported."""
        return isinstance(value, str) and (value in self.homes or NAME.fullmatch(value) is not None)

    def found(self, value: Any) -> tuple[Any, dict[str, Any]]:
        """The class, function or object that a value stands for, and the options that its name gives.

        Raises:
            ConfigError: there is no such module or name, or the options are not plain values.
        """
        if isinstance(value, functools.partial):
            return value.func, dict(value.keywords)
        if not isinstance(value, str):
            return value, {}
        match = NAME.fullmatch(self.homes.get(value, value))
        if match is None:
            raise ConfigError(f"{self.kind} = {value!r}, but it must be {self.promise}.")
        module, name, options = match.groups()
        try:
            part = functools.reduce(getattr, name.split("."), importlib.import_module(module))
        except ImportError as error:
            raise ConfigError(f"the {self.kind} '{value}' cannot be imported: {error}.") from None
        except AttributeError:
            raise ConfigError(f"module '{module}' has no {self.kind} '{name}'.") from None
        return part, _options_in(options, value) if options else {}

    def make(self, value: Any, options: object) -> Any:
        """The part that a value stands for, ready for use.

        A class is called with the options of its name; those of its parameters that are options of the verb, too,
        get the verb's values.

        Args:
            value: a part, its class, or its name.
            options: of the verb.

        Raises:
            ConfigError: there is no such part, it does not take these options, or it lacks a method.
        """
        part, given = self.found(value)
        if isinstance(part, type):
            known = set(inspect.signature(part).parameters)
            shared = {key: getattr(options, key) for key in known - given.keys() if hasattr(options, key)}
            try:
                part = part(**shared, **given)
            except TypeError as error:
                raise ConfigError(f"the {self.kind} '{self.name_of(value)}' cannot be made: {error}.") from None
        lacking = [name for name in self.needs if not callable(getattr(part, name, None))]
        if lacking:
            raise ConfigError(
                f"the {self.kind} {self.name_of(value)!r} has no {lacking[0]}(…). docs/extending.md shows one."
            )
        return part

    def name_of(self, value: Any, leave_out: tuple[str, ...] = ()) -> str:
        """The name under which a part is recorded: short for ours, else `module:Name` and its options.

        Args:
            value: a part, its class, or its name.
            leave_out: fields that are recorded elsewhere.
        """
        if isinstance(value, str):
            return value
        part, given = self.found(value)
        named = part if hasattr(part, "__qualname__") else type(part)
        home = f"{named.__module__}:{named.__qualname__}"
        given = given or {key: item for key, item in _fields_of(part).items() if key not in leave_out}
        if home in self.homes.values():
            # Two of our parts may be one class with other options: the first that is called like it.
            return next(name for name, place in self.homes.items() if place == home)
        said = ", ".join(f"{key}={item!r}" for key, item in sorted(given.items()))
        return f"{home}({said})" if said else home


def fields_shared(part: Any, options: object) -> dict[str, Any]:
    """The fields of a part that are options of the verb as well, with the part's values."""
    if not is_dataclass(part) or isinstance(part, type):
        return {}
    return {field.name: getattr(part, field.name) for field in fields(part) if hasattr(options, field.name)}


def _fields_of(part: Any) -> dict[str, Any]:
    """The fields of an object that differ from their defaults."""
    if not is_dataclass(part) or isinstance(part, type):
        return {}
    values = {field.name: (getattr(part, field.name), field.default) for field in fields(part)}
    return {name: value for name, (value, default) in values.items() if value != default}


def _options_in(text: str, name: str) -> dict[str, Any]:
    """The options in `(epsilon=0.1, name='x')`: literals only, so that a recipe holds no code."""
    try:
        call = ast.parse(f"part{text}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(word.arg is None for word in call.keywords):
            raise ValueError("options have the form key=value")
        return {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, SyntaxError) as error:
        raise ConfigError(f"the options of '{name}' cannot be read: {error}.") from None
