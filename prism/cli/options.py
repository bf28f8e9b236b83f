"""How a command runs, and on which files: what its command line offers beside the options of its verb."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from prism.machine.devices import Device
from prism.machine.executors import Engine

WHERE = Group("Where it runs", sort_key=99)

Output = Annotated[Path, Parameter(name=["--output", "-o"])]
Flag = Annotated[bool, Parameter(negative="")]
Paths = Annotated[list[Path], Parameter(negative="", consume_multiple=True)]


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a verb runs. A command offers those of these options that its verb has a use for."""

    recipe: Annotated[list[Path] | None, Parameter(negative="")] = None
    """TOML recipe with a table of this verb's options, or the name of one that PRISM ships (miniucf). Of several \
the later ones win (--recipe hmdb51 --recipe ablations/dm); options given here win over all."""
    resume: Annotated[bool, Parameter(negative="", group=WHERE)] = False
    """Continue from the checkpoint of an interrupted run, to the same bytes."""
    overwrite: Annotated[bool, Parameter(negative="", group=WHERE)] = False
    """Replace an existing output."""
    device: Annotated[Device, Parameter(group=WHERE)] = "auto"
    """Where networks run; auto takes a GPU if there is one."""
    engine: Annotated[Engine, Parameter(group=WHERE)] = "local"
    """Where the work is done: local, in this process; dask, on the Dask cluster at --address, whose workers see \
the same files. The output is the same."""
    address: Annotated[str | None, Parameter(group=WHERE)] = None
    """Scheduler of the engine's cluster, as tcp://127.0.0.1:8786."""
    progress: Annotated[bool, Parameter(group=WHERE)] = True
    """Show a progress bar, or a line a minute where the output is no terminal."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The files of `evaluate` and `retrieve`."""

    data: Path
    """Clip store to score on."""
    train: Path | None = None
    """Train on real clips of this store instead: the ceiling, or with --train-vpc a random floor."""
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None
    """Result to write (.json); it grows with every seed."""
    label: str | None = None
    """Name of the row in tables."""


# Of two bases the last one's options come first in the help.
@dataclass(frozen=True, kw_only=True)
class Scoring(Running, Scored):
    """How `evaluate` and `retrieve` run, and on which files."""

    resume: Annotated[bool, Parameter(negative="", group=WHERE)] = False
    """Keep the seeds that the result has already, and train those it lacks."""
    workers: Annotated[int | None, Parameter(group=WHERE)] = None
    """Networks that are trained side by side, at most; all cores by default. No score depends on it."""


LOCAL = Running()
