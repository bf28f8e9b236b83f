"""How a command runs, and on which files: its options besides those of its verb."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

from cyclopts import Group, Parameter, Token

from prism.errors import ConfigError
from prism.machine.devices import Device
from prism.machine.executors import Engine


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
    """The help of an argument, for its annotation."""
    return Parameter(help=text)


WHERE = Group("Where it runs", sort_key=99)
OUTPUT = Parameter(name=["--output", "-o"])
FLAG = Parameter(negative="")
SEVERAL = Parameter(negative="", consume_multiple=True)
WHOLE = Parameter(converter=whole)
PLACED = Parameter(group=WHERE)
Workers = Annotated[int | None, WHOLE, PLACED]


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a verb runs. A command offers the options that its verb uses."""

    recipe: Annotated[list[Path] | None, FLAG] = None
    """TOML recipe with a table of this verb's options, or the name of one that PRISM ships (miniucf). Of several \
the later ones win (--recipe hmdb51 --recipe ablations/dm); options given here win over all."""
    resume: Annotated[bool, FLAG, PLACED] = False
    """Continue from the checkpoint of an interrupted run, to the same bytes."""
    overwrite: Annotated[bool, FLAG, PLACED] = False
    """Replace an existing output."""
    device: Annotated[Device, PLACED] = "auto"
    """Where networks run; auto takes a GPU if there is one."""
    engine: Annotated[Engine, PLACED] = "local"
    """Where the work is done: local, in this process; dask, on the Dask cluster at --address, whose workers see \
the same files."""
    address: Annotated[str | None, PLACED] = None
    """Scheduler of the engine's cluster, as tcp://127.0.0.1:8786."""
    progress: Annotated[bool, PLACED] = True
    """Show a progress bar, or a line a minute where the output is no terminal."""


# Fields of a base come first in the help, so the files of a verb are one.
@dataclass(frozen=True, kw_only=True)
class Scored:
    """The files of `evaluate`."""

    data: Path
    """Clip store to score on."""
    train: Path | None = None
    """Train on real clips of this store instead: the ceiling, or with --train-vpc a random floor."""
    output: Annotated[Path | None, OUTPUT] = None
    """Result to write (.json); it grows with every seed."""
    label: str | None = None
    """Name of the row in tables."""


@dataclass(frozen=True, kw_only=True)
class Scoring(Running, Scored):
    """How `evaluate` runs, and on which files."""

    resume: Annotated[bool, FLAG, PLACED] = False
    """Keep the seeds that the result has already, and train those it lacks."""
    workers: Workers = None
    """Networks that are trained side by side, at most; all cores by default. No score depends on it."""


LOCAL = Running()
