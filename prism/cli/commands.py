"""Commands of `prism`, made from functions: options come from the verb, and recipes replace their defaults."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, make_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from cyclopts import App, ArgumentCollection, Group, Parameter, Token
from cyclopts.config import Dict

from prism.config import Options, described
from prism.errors import ConfigError
from prism.machine.executors import dask_executor
from prism.machine.provenance import versions
from prism.machine.run import NOT_TAKEN, Run
from prism.machine.text_io import printable
from prism.parts import NAME
from prism.recipes import SECTIONS, read_recipe

Verb = TypeVar("Verb", bound=Callable[..., Any])


def whole(kind: Any, tokens: Sequence[Token]) -> Any:
    """Convert the words of an option to int, or to a list of int; cyclopts would round 1.5 to 2."""
    found = []
    for token in tokens:
        try:
            found.append(int(token.value))
        except ValueError:
            raise ConfigError(f"{token.keyword} = {token.value}, but it must be a whole number.") from None
    return found if get_origin(kind) is list else found[0]


def Help(text: str) -> Parameter:
    return Parameter(help=text)


OUTPUT = Parameter(name=["--output", "-o"])
FLAT = Parameter(name="*")
FLAG = Parameter(negative="")
MANY = Parameter(negative="", consume_multiple=True)
WHOLE = Parameter(converter=whole)
PLACED = Parameter(group=Group("Where it runs", sort_key=99))
Workers = Annotated[int | None, WHOLE, PLACED]


@dataclass(frozen=True, kw_only=True)
class Running:
    """Options of a run of a verb; a command offers only those that its verb uses."""

    recipe: Annotated[list[Path] | None, FLAG] = None
    """TOML recipe with a table of this verb's options, or the name of one that prism recipes lists. Of several \
the later ones win (--recipe hmdb51 --recipe ablations/dm); options given here win over all."""
    resume: Annotated[bool, FLAG, PLACED] = False
    """Continue an interrupted run, to the same bytes; a result keeps the seeds that it has."""
    overwrite: Annotated[bool, FLAG, PLACED] = False
    """Replace an existing output."""
    device: Annotated[str, PLACED] = "auto"
    """Where networks run: cpu, cuda, a GPU by its number (cuda:1), or auto, which takes a GPU if there is one."""
    executor: Annotated[str | None, PLACED] = None
    """Address of a Dask scheduler, as tcp://127.0.0.1:8786, whose workers see the same files and do the work."""
    progress: Annotated[bool, PLACED] = True
    """Show a progress bar, or a line a minute where the output is no terminal."""


LOCAL = Running()


def apply_recipe(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill the options that the command line leaves open from the recipes that it names."""
    words = {argument.name: [token.value for token in argument.tokens] for argument in arguments}
    if (given := words.get("--recipe")) and commands:
        unknown = None if "--vpc" in words else 0
        vpc = max((int(word) for word in words.get("--vpc", ()) if word.isdecimal()), default=unknown)
        verb, recipe, named = commands[0], read_recipe(*given, vpc=vpc), " and ".join(given)
        for options in recipe.values():
            for value in options.values():
                reach_custom_parts(str, value)
        if verb in SECTIONS and verb not in recipe:
            print(f"Recipe {named} has no options of prism {verb}, which has its defaults.", file=sys.stderr)
        Dict(recipe.get(verb, {}), use_commands_as_keys=False, source=named)(app, commands, arguments)


app = App(
    name="prism",
    help="Video dataset condensation: a labelled folder of clips becomes a few synthetic videos per class.\n\n"
    "Example: prism ingest videos/ -o store; prism condense store -o set.safetensors --recipe small",
    help_format="plaintext",
    config=apply_recipe,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    version=lambda: versions()["prism"],
)


def command(function: Verb) -> Verb:
    """Decorator that makes a function, named after its verb, a command; without `config` it has no recipes."""
    hints, not_taken = function.__annotations__, {*NOT_TAKEN.get(function.__name__, ())}
    if "config" in hints:
        hints["config"] = Annotated[_grouped(get_args(hints["config"])[0]), FLAT]
    else:
        not_taken.add("recipe")
    if "run" in hints:
        unseen = Annotated[Any, Parameter(parse=False)]
        hidden = [(name, unseen, value) for name, value in vars(LOCAL).items() if name in not_taken]
        hints["run"] = Annotated[_derived(Running, hidden), FLAT]
    # Verbs stand in the order in which they are used, not of the alphabet.
    app.command(function, sort_key=len([*app]))
    return function


def _grouped(config: type[Options]) -> type:
    """A class like `config`, with groups and ranges for the help; calling it makes a plain `config`."""
    groups: dict[str, Group] = {}
    hints, fields = get_type_hints(config, include_extras=True), []
    for name, field in described(config).items():
        parameter = Parameter(
            group=groups.setdefault(field.group, Group(field.group, sort_key=len(groups))),
            converter=whole if field.kind is int else None,
            show_default=partial(_default_and_range, field.range) if field.range and not field.choices else True,
            validator=reach_custom_parts if field.parts else None,
        )
        fields.append((name, Annotated[hints[name], parameter], field.default))
    return _derived(config, fields, __new__=lambda cls, **given: config(**given))


def _default_and_range(limits: str, default: Any) -> str:
    return f"{default}; {limits}" if default != "" else f'""; {limits}'


def _derived(base: type, fields: list[tuple[str, Any, Any]], **namespace: Any) -> type:
    # Python puts derived classes into the module `types`, where cyclopts takes them for simple types.
    namespace["__module__"] = __name__
    # The methods of the base are kept: making new ones would take a tenth of the time of `prism --help`.
    return make_dataclass(
        base.__name__, fields, bases=(base,), namespace=namespace, frozen=True, init=False, repr=False, eq=False
    )


def verbs_with(option: str) -> list[str]:
    """The verbs that have an option such as `--epochs`."""
    every = {verb: app[verb].assemble_argument_collection() for verb in app if not verb.startswith("-")}
    return [verb for verb, offered in every.items() if any(one.parse and option in one.names for one in offered)]


def reach_custom_parts(kind: Any, value: Any) -> None:
    """Make the working directory importable, as `python -m` does, if a value names a custom part."""
    if isinstance(value, str) and NAME.fullmatch(value) and "" not in sys.path:
        sys.path.insert(0, "")


def call(verb: Callable[..., Any], *inputs: Any, run: Running, **given: Any) -> Any:
    """Call a verb with the run that the command line describes."""
    with dask_executor(run.executor) as executor:
        how = Run(None, run.resume, run.overwrite, run.device, executor, run.progress)
        return verb(*inputs, run=how, **given)


def say(text: str) -> None:
    """Print lines for the user, with control characters of the terminal spelled out."""
    print("\n".join(map(printable, text.split("\n"))), flush=True)
