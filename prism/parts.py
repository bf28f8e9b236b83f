"""Parts: the pieces of a method that a researcher may replace, as an object or by a name.

A part is a small object whose fields are its options: `GradientConflict(epsilon=0.1)`. In Python the object itself
is given. On the command line and in recipes it has a name: a short one for the parts of PRISM (`gradient`), and
`package.module:Name` for one of your own. Either may be followed by options, `(option=value)`. docs/extending.md
has an example of every kind.
"""

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from prism.errors import ConfigError, PrismError

WORDS = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
NAME = re.compile(rf"({WORDS}):({WORDS})(\(.*\))?", re.ASCII | re.DOTALL)
"""`module:Name` or `module:Name(option=value)`."""
FOR_PEOPLE = re.compile(r" at 0x[0-9A-Fa-f]+|\b(tensor|array)\(|\n")
"""Texts with a memory address, with rounded numbers, or laid out in lines."""


@dataclass(frozen=True)
class Parts:
    """One kind of part: the names of those that PRISM ships, and the methods that every part of the kind has.

    Attributes:
        kind: its noun in sentences, as `insertion rule`.
        registry: for each short name the place of the part, as `module:Name`.
        required: the methods that a part must have.
        are_classes: whether a part stays a class, of which its verb makes objects, as a network does.
    """

    kind: str
    registry: Mapping[str, str]
    required: tuple[str, ...] = ()
    are_classes: bool = False

    @property
    def promise(self) -> str:
        """The names that are allowed, in words."""
        return f"one of {', '.join(self.registry)}, or a part of your own as module:Name"

    def is_name(self, value: object) -> bool:
        """Whether a text could name a part; nothing is imported."""
        return isinstance(value, str) and NAME.fullmatch(self._place(value)) is not None

    def _place(self, name: str) -> str:
        """A name as `module:Name`, with its options if it has some."""
        short, bracket, options = name.partition("(")
        return self.registry.get(short, short) + bracket + options

    def resolve(self, value: Any) -> tuple[Any, dict[str, Any]]:
        """The class, function or object that a value stands for, and the options that the value gives to it.

        Args:
            value: a part, its class, a `functools.partial` of its class, or its name.

        Raises:
            ConfigError: there is no such module or name, or the options of a name are not literals.
        """
        if isinstance(value, functools.partial):
            return value.func, self.options_of(value)
        if not isinstance(value, str):
            return value, {}
        match = NAME.fullmatch(self._place(value))
        if match is None:
            raise ConfigError(f"{self.kind} = {value!r}, but it must be {self.promise}.")
        given = self.options_of(value)
        try:
            module = importlib.import_module(match[1])
        except ImportError as error:
            raise ConfigError(f"the {self.kind} '{value}' cannot be imported: {error}.") from error
        except Exception as error:
            # Somebody else's module runs here: whatever it raises, the name is the remedy's place.
            problem = f"{type(error).__name__}: {error}"
            raise ConfigError(f"the {self.kind} '{value}' cannot be imported: {problem}.") from error
        try:
            return functools.reduce(getattr, match[2].split("."), module), given
        except AttributeError:
            raise ConfigError(f"module '{match[1]}' has no {self.kind} '{match[2]}'.") from None

    def make(self, value: Any, options: object = None) -> Any:
        """The part that a value stands for, ready for use.

        A class is called with the options that its name gives. Its other parameters get the values of the verb's
        options of the same names.

        Args:
            value: a part, its class, a `functools.partial` of its class, or its name.
            options: of the verb; None where it has none.

        Raises:
            ConfigError: there is no such part, it does not take these options, or it lacks a method.
        """
        part, given = self.resolve(value)
        if isinstance(part, type):
            open_options = _parameters(part).keys() - given.keys()
            shared = {key: item for key, item in getattr(options, "__dict__", {}).items() if key in open_options}
            try:
                part = part(**shared, **given)
            except PrismError:
                raise
            except Exception as error:
                raise self.unmade(value, error) from error
        elif given:
            raise ConfigError(f"the {self.kind} '{self.name_of(value)}' takes no options, as it is not a class.")
        elif lost := sorted(key for key in _named(type(part)) if not hasattr(part, key)):
            raise ConfigError(
                f"the {self.kind} '{self.name_of(value)}' does not keep its parameter {lost[0]}, so runs with "
                f"another one could not be told from it. Keep it as self.{lost[0]}."
            )
        lacking = [name for name in self.required if not callable(getattr(part, name, None))]
        if lacking:
            raise ConfigError(
                f"the {self.kind} '{self.name_of(value)}' has no {lacking[0]}(…). docs/extending.md shows one."
            )
        return part

    def idle(self, value: Any) -> set[str]:
        """The options that a part of PRISM's has as fields, but this one has not."""
        return {name for home in self.registry for name in self.fields(home)} - self.fields(value)

    def fields(self, value: Any) -> set[str]:
        """The parameters of a part's class, which get the values of the verb's options of the same names."""
        part, _ = self.resolve(value)
        return {*_parameters(part if isinstance(part, type) else type(part))}

    def unmade(self, value: Any, error: Exception) -> ConfigError:
        """The sentence for an error of a constructor."""
        # The usual mistakes explain themselves.
        kind = "" if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: "
        problem = f"{kind}{error}".rstrip(".")
        return ConfigError(f"the {self.kind} '{self.name_of(value)}' cannot be made: {problem}.")

    def is_builtin(self, value: Any) -> bool:
        """Whether a part is one of those with a short name; somebody else's code may change under one name."""
        return self.name_of(value) in self.registry

    def options_of(self, value: Any) -> dict[str, Any]:
        """The options that a value brings: those in its name, or the parameters of its class that it keeps.

        Raises:
            ConfigError: the options of a name are not literals.
        """
        if isinstance(value, str):
            match = NAME.fullmatch(self._place(value))
            return _literals(match[3], value) if match and match[3] else {}
        if isinstance(value, functools.partial):
            return dict(zip(_parameters(value.func), value.args, strict=False)) | value.keywords
        if hasattr(value, "__qualname__"):
            return {}
        return {key: getattr(value, key) for key in _named(type(value)) if hasattr(value, key)}

    def name_of(self, value: Any, leave_out: Collection[str] = ()) -> str:
        """The name under which a part is recorded: short for ours, else `module:Name` and its options.

        Args:
            value: a part, its class, a `functools.partial` of its class, or its name.
            leave_out: options that are recorded elsewhere.

        Raises:
            ConfigError: the text of an option would not tell a run from one with another value.
        """
        if isinstance(value, str) and not self.is_name(value):
            return value
        options = self.options_of(value)
        if isinstance(value, str):
            home = self._place(value).partition("(")[0]
        else:
            part, _ = self.resolve(value)
            if self.are_classes and not isinstance(part, type):
                raise ConfigError(
                    f"the {self.kind} must be a class, or a functools.partial of one, not a {type(part).__name__}."
                )
            named = part if hasattr(part, "__qualname__") else type(part)
            home = f"{named.__module__}:{named.__qualname__}"
            defaults = {key: repr(word.default) for key, word in _parameters(named).items()}
            options = {key: item for key, item in options.items() if repr(item) != defaults.get(key)}
            for untold in sorted(key for key, item in options.items() if not _is_told(item)):
                said = f"has an option {untold} of type {type(options[untold]).__name__}"
                raise ConfigError(
                    f"the {self.kind} '{home}' {said}, whose text does not tell it from another value. Give "
                    "numbers, texts, or lists or dataclasses of these; what lies in a file, by its path."
                )
        # The memory address in the text of a function would differ in every run.
        said = ", ".join(
            f"{key}={getattr(item, '__qualname__', None) or repr(item)}"
            for key, item in sorted(options.items())
            if key not in leave_out
        )
        name = f"{home}({said})" if said else home
        return next((short for short, place in self.registry.items() if place == name), name)


def _is_told(item: Any) -> bool:
    """Whether the text of an option is the same in every run, and another one for every value."""
    if isinstance(item, str) or hasattr(item, "__qualname__"):
        return True
    # The text of a module of PyTorch does not tell its weights.
    return not (hasattr(item, "state_dict") or FOR_PEOPLE.search(repr(item)))


def _parameters(part: Any) -> Mapping[str, inspect.Parameter]:
    if isinstance(part, type) and part.__init__ is object.__init__:
        # Python would compile the text of object's own signature, and nothing that is read may compile anything.
        return {}
    try:
        return inspect.signature(part).parameters
    except (TypeError, ValueError):
        # Classes that are written in C may have no signature.
        return {}


def _named(part: Any) -> list[str]:
    """The parameters of a class that have a name of their own."""
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return [key for key, parameter in _parameters(part).items() if parameter.kind not in several]


def _literals(text: str, name: str) -> dict[str, Any]:
    """The options in `(epsilon=0.1, name='x')`: literals only, so that a recipe holds no code."""
    try:
        call = ast.parse(f"part{text}", mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args:
            options = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords if word.arg}
            if len(options) == len(call.keywords):
                return options
    except (TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
        pass
    raise ConfigError(
        f"the options of '{name}' cannot be read. Write each once as key=value, with a number, a text in quotes, "
        "True, False, None, or a list of these."
    )
