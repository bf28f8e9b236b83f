"""Parts: the pieces of a method that a researcher may replace, by an object or by a name.

A part is a small object whose fields are its options: `GradientConflict(epsilon=0.1)`. In Python the object itself
is given. On the command line and in recipes a part is given by name: PRISM's parts by a short name (`gradient`),
custom parts by `package.module:Name`. Options may follow a name: `(option=value)`.
"""

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from prism.errors import ConfigError, PrismError, nearest

WORDS = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
NAME = re.compile(rf"({WORDS}):({WORDS})(\(.*\))?", re.ASCII | re.DOTALL)
"""Pattern of `module:Name` and `module:Name(option=value)`."""


@dataclass(frozen=True)
class Parts:
    """One kind of part. A value is a part, its class, a `functools.partial` of its class, or its name.

    Attributes:
        kind: the noun in messages, such as `insertion rule`.
        base: the class from which every part of this kind derives, as `module:Name`.
        registry: the place of the part by short name.
        as_class: whether a part is given as its class, because PRISM makes the objects.
    """

    kind: str
    base: str
    registry: Mapping[str, str]
    as_class: bool = False

    @property
    def promise(self) -> str:
        """The names that are allowed, in words."""
        return f"one of {', '.join(self.registry)}, or a part of your own as module:Name"

    def is_builtin(self, value: Any) -> bool:
        """Whether a part is PRISM's; a custom part's code may change while its name stays the same."""
        return self.name_of(value).partition("(")[0] in {*self.registry, *self.registry.values()}

    def match(self, name: str) -> re.Match[str] | None:
        """Module, name and options of a text that could name a part, or None; nothing is imported."""
        short, bracket, options = name.partition("(")
        return NAME.fullmatch(self.registry.get(short, short) + bracket + options)

    def resolve(self, value: Any) -> tuple[Any, dict[str, Any]]:
        """The class or object that a value stands for, and the options that the value sets."""
        if not isinstance(value, str):
            is_bound = isinstance(value, functools.partial)
            part = value.func if is_bound else value
            if not self.derives(part):
                raise ConfigError(f"{self.kind} = {value!r:.200}, but it must be {self.promise}.")
            self.check(part)
            return part, self.options_of(value) if is_bound else {}
        if (match := self.match(value)) is None:
            raise ConfigError(f"{self.kind} = {value!r}, but it must be {self.promise}.")
        given = self.options_of(value)
        try:
            part = _at(match[1], match[2])
        except Exception as error:
            # The code of a custom module runs here, and may raise anything.
            kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
            raise ConfigError(f"the {self.kind} '{value}' cannot be imported: {kind}{error}.") from error
        self.check(part)
        return part, given

    def make(self, value: Any, options: object = None) -> Any:
        """The part that a value stands for; a class also gets the verb's options with names of its parameters."""
        part, given = self.resolve(value)
        if not isinstance(part, type):
            if given:
                raise ConfigError(f"the {self.kind} '{self.name_of(value)}' takes no options: it is not a class.")
            return part
        known = _parameters(part).keys() - given.keys()
        shared = {key: item for key, item in getattr(options, "__dict__", {}).items() if key in known}
        try:
            return part(**shared, **given)
        except Exception as error:
            raise self.unmade(value, error) from error

    def check(self, part: Any) -> None:
        """Raise a ConfigError for an object or a class that cannot be a part of this kind."""
        if self.as_class and not isinstance(part, type):
            wrong = type(part).__name__
            raise ConfigError(f"the {self.kind} must be a class, or a functools.partial of one, not a {wrong}.")
        if not self.derives(part):
            wrong = f"the {self.kind} '{_home(part)}' does not derive from {self.base.replace(':', '.')}"
            raise ConfigError(f"{wrong}. See docs/extending.md or docs/api.md.")

    def derives(self, part: Any) -> bool:
        """Whether a class, or the class of an object, derives from the base of this kind."""
        return issubclass(part if isinstance(part, type) else type(part), _at(*self.base.split(":")))

    def unmade(self, value: Any, error: Exception) -> PrismError:
        """The PrismError to raise for an error of a part's constructor."""
        if isinstance(error, PrismError):
            return error
        kind = "" if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: "
        fields = self.fields(value)
        guess = "".join(nearest(option, fields) for option in self.options_of(value) if option not in fields)
        problem = f"{kind}{error}".removesuffix(guess).rstrip(".")  # Python 3.13 proposes the word as well.
        return ConfigError(f"the {self.kind} '{self.name_of(value)}' cannot be made: {problem}.{guess}")

    def fields(self, value: Any) -> set[str]:
        """The parameter names of a part's class; a parameter gets the value of the verb's option with its name."""
        return {*_parameters(_class(self.resolve(value)[0]))}

    def options_of(self, value: Any) -> dict[str, Any]:
        """The options that a value sets: in its name, in its partial, or as attributes named like parameters."""
        if isinstance(value, str):
            match = self.match(value)
            return _literals(match[3], value) if match and match[3] else {}
        if isinstance(value, functools.partial):
            return dict(zip(_parameters(value.func), value.args, strict=False)) | value.keywords
        if hasattr(value, "__qualname__"):
            return {}
        options = {}
        for key, word in _parameters(type(value)).items():
            if hasattr(value, key):
                options[key] = getattr(value, key)
            elif word.kind not in (word.VAR_POSITIONAL, word.VAR_KEYWORD):
                said = f"the {self.kind} '{_home(value)}' has no attribute {key}, so that nothing could record it"
                raise ConfigError(f"{said}. Keep the parameter as self.{key}.")
        return options

    def name_of(self, value: Any, leave_out: Collection[str] = ()) -> str:
        """The name under which a part is recorded: a short name, or `module:Name` with options."""
        options = {key: _plain(item) for key, item in self.options_of(value).items()}
        if isinstance(value, str):
            if (match := self.match(value)) is None:
                return value
            home = f"{match[1]}:{match[2]}"
        else:
            home = _home(self.resolve(value)[0])
        # Reading the name of a custom part must not import it.
        if options and (home in self.registry.values() or not isinstance(value, str)):
            known = _parameters(_class(self.resolve(value)[0]))
            defaults = {key: repr(word.default) for key, word in known.items()}
            options = {key: item for key, item in options.items() if repr(item) != defaults.get(key)}
        # The repr of a function contains a memory address, which would differ in every run.
        words = [
            f"{key}={getattr(options[key], '__qualname__', None) or repr(options[key])}"
            for key in sorted(options.keys() - set(leave_out))
        ]
        name = f"{home}({', '.join(words)})" if words else home
        return next((short for short, place in self.registry.items() if place == name), name)


def _plain(value: Any) -> Any:
    """A value as a literal that can be read back: a number or an array of NumPy as Python's."""
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value


def _at(module: str, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def _class(part: Any) -> Any:
    return part if hasattr(part, "__qualname__") else type(part)


def _home(part: Any) -> str:
    # In a spawned process the script's module is called __mp_main__.
    return f"{_class(part).__module__.replace('__mp_main__', '__main__')}:{_class(part).__qualname__}"


def _parameters(part: Any) -> Mapping[str, inspect.Parameter]:
    if isinstance(part, type) and part.__init__ is object.__init__:
        # For object's own signature Python would compile a text, and reading a file must not compile anything.
        return {}
    return inspect.signature(part).parameters


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
    values = "a number, a text in quotes, True, False, None, or a list of these"
    raise ConfigError(f"the options of '{name}' cannot be read. Write each once as key=value, with {values}.")
