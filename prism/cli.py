"""The `prism` command: one function for each verb. The only place that parses arguments or prints."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, ArgumentCollection, CycloptsError, Parameter
from cyclopts.config import Dict

from prism.condensation.options import CondenseConfig
from prism.errors import ConfigError, PrismError
from prism.evaluation.options import EvaluateConfig, RetrieveConfig
from prism.ingestion.options import IngestConfig, MotionConfig
from prism.machine.devices import Device
from prism.machine.executors import Engine, opened
from prism.machine.provenance import versions
from prism.recipes import read_recipe
from prism.reproduction.options import Scale
from prism.selection.options import SelectConfig

Output = Annotated[Path, Parameter(name=["--output", "-o"])]
Recipe = Annotated[
    list[Path] | None,
    Parameter(
        negative="",
        help="TOML recipe with a table of this verb's options, or the name of one that PRISM ships (miniucf). Of "
        "several the later ones win (--recipe hmdb51 --recipe ablations/dm); options given here win over all.",
    ),
]
Overwrite = Annotated[bool, Parameter(negative="", help="Replace an existing output.")]
DeviceOption = Annotated[Device, Parameter(help="Where networks run; auto takes a GPU if there is one.")]
SideBySide = Annotated[
    int | None,
    Parameter(
        help="Networks that are trained side by side, at most; all cores by default. No score depends on it."
    ),
]
EngineOption = Annotated[
    Engine,
    Parameter(
        help="Where the work is done: local, in this process; dask, on the Dask cluster at --address, whose "
        "workers see the same files. The output is the same."
    ),
]
AddressOption = Annotated[
    str | None, Parameter(help="Scheduler of the engine's cluster, as tcp://127.0.0.1:8786.")
]
ProgressOption = Annotated[bool, Parameter(help="Show a progress bar on a terminal.")]
Options = Parameter(name="*")


def apply_recipe(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill the options that the command line left open from the recipes it names."""
    given = [token.value for argument in arguments if argument.name == "--recipe" for token in argument.tokens]
    if given and commands:
        options = read_recipe(*given).get(commands[0], {})
        Dict(options, use_commands_as_keys=False, source=" and ".join(given))(app, commands, arguments)


app = App(
    name="prism",
    help="Video dataset condensation: a labelled folder of clips becomes a few synthetic videos per class.",
    help_format="plaintext",
    config=apply_recipe,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    version=lambda: versions()["prism"],
)


@app.command
def motion(
    *,
    output: Output,
    recipe: Recipe = None,
    overwrite: Overwrite = False,
    progress: ProgressOption = True,
    config: Annotated[MotionConfig, Options] = MotionConfig(),  # noqa: B008
) -> None:
    """Write the built-in data set: real video files whose classes differ only in motion.

    Example: prism motion -o runs/motion

    Parameters
    ----------
    output
        Folder to write.
    """
    from prism.ingestion.motion import write_motion

    write_motion(output, config, overwrite=overwrite, progress=progress)
    say(f"Wrote {output}. Next: prism ingest {output} -o STORE")


@app.command
def ingest(
    source: Path,
    /,
    *,
    output: Output,
    workers: int | None = None,
    recipe: Recipe = None,
    overwrite: Overwrite = False,
    engine: EngineOption = "local",
    address: AddressOption = None,
    progress: ProgressOption = True,
    config: Annotated[IngestConfig, Options] = IngestConfig(),  # noqa: B008
) -> None:
    """Decode a labelled folder of videos into a clip store. Run it again after a kill: it goes on.

    Example: prism ingest videos/ -o runs/store --num-frames 8 --size 64

    Parameters
    ----------
    source
        root/<class>/*.mp4, root/{train,val,test}/<class>/*, a CSV (path,label,split), folders of frames, or with
        --layout the folder of a data set with its official lists.
    output
        Store to write (a folder).
    workers
        Processes that decode; all cores by default.
    """
    from prism.ingestion.build import ingest as build

    options = {"workers": workers, "overwrite": overwrite, "progress": progress}
    with opened(engine, address) as executor:
        store = build(source, output, config, executor=executor, **options)
    say(repr(store))
    if store.header.num_skipped:
        say(f"Skipped {store.header.num_skipped} videos; {output / 'skipped.csv'} says why.")
    for split in ("val", "test"):
        counts = zip(store.classes, store.counts(split).tolist(), strict=True)
        without = [name for name, count in counts if count == 0]
        if without and len(store.positions(split)):
            say(f"Caution: no {split} clips of {', '.join(without)}; {split} accuracy says nothing of them.")


@app.command
def condense(
    store: Path,
    /,
    *,
    output: Output,
    checkpoint_seconds: float = 60.0,
    resume: Annotated[bool, Parameter(negative="")] = False,
    recipe: Recipe = None,
    overwrite: Overwrite = False,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    address: AddressOption = None,
    progress: ProgressOption = True,
    config: Annotated[CondenseConfig, Options] = CondenseConfig(),  # noqa: B008
) -> None:
    """Turn the training clips of a store into a few synthetic videos per class.

    Example: prism condense runs/store -o runs/set.safetensors --vpc 1 --iterations 500

    Parameters
    ----------
    store
        Clip store, from prism ingest.
    output
        Condensed set to write (.safetensors); telemetry goes beside it.
    checkpoint_seconds
        Seconds between two checkpoints: what a kill can lose.
    resume
        Continue from the checkpoint of an interrupted run, to the same bytes.
    """
    from prism.condensation.loop import condense as run

    with opened(engine, address) as executor:
        condensed = run(
            store,
            config,
            output=output,
            resume=resume,
            overwrite=overwrite,
            checkpoint_seconds=checkpoint_seconds,
            device=device,
            executor=executor,
            progress=progress,
        )
    say(repr(condensed))


@app.command
def select(
    store: Path,
    /,
    *,
    output: Output,
    recipe: Recipe = None,
    overwrite: Overwrite = False,
    device: DeviceOption = "auto",
    config: Annotated[SelectConfig, Options] = SelectConfig(),  # noqa: B008
) -> None:
    """Pick real training clips: coded takes by default, the field's baselines with their recipes.

    Example: prism select runs/store -o runs/random.safetensors --recipe random --vpc 1

    Parameters
    ----------
    store
        Clip store, from prism ingest.
    output
        Condensed set to write (.safetensors).
    """
    from prism.selection.select import select as pick

    say(repr(pick(store, config, output=output, overwrite=overwrite, device=device)))


@app.command
def evaluate(
    condensed: Path | None = None,
    /,
    *,
    data: Path,
    train: Path | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    label: str | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    recipe: Recipe = None,
    overwrite: Overwrite = False,
    device: DeviceOption = "auto",
    workers: SideBySide = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    progress: ProgressOption = True,
    config: Annotated[EvaluateConfig, Options] = EvaluateConfig(),  # noqa: B008
) -> None:
    """Train fresh networks on a set and score them on real clips; the default protocol chooses nothing on those.

    Example: prism evaluate runs/set.safetensors --data runs/store --epochs 500 -o runs/set.json

    Parameters
    ----------
    condensed
        Condensed set to train on; leave it out with --train.
    data
        Clip store to score on.
    train
        Train on real clips of this store instead: the ceiling, or with --train-vpc a random floor.
    output
        Result to write (.json); it grows with every seed.
    label
        Name of the row in tables.
    resume
        Keep the seeds that the result has already, and train those it lacks.
    """
    from prism.evaluation.evaluate import evaluate as run

    with opened(engine, address) as executor:
        result = run(
            condensed,
            data,
            config,
            train_store=train,
            output=output,
            label=label,
            resume=resume,
            overwrite=overwrite,
            device=device,
            workers=workers,
            executor=executor,
            progress=progress,
        )
    say(str(result))


@app.command
def retrieve(
    condensed: Path | None = None,
    /,
    *,
    data: Path,
    train: Path | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    label: str | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    recipe: Recipe = None,
    overwrite: Overwrite = False,
    device: DeviceOption = "auto",
    workers: SideBySide = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    progress: ProgressOption = True,
    config: Annotated[RetrieveConfig, Options] = RetrieveConfig(),  # noqa: B008
) -> None:
    """Train embeddings on a set and score them by the real training clips nearest to each test clip.

    Example: prism retrieve runs/set.safetensors --data runs/store --epochs 500 -o runs/set-retrieval.json

    Parameters
    ----------
    condensed
        Condensed set to train on; leave it out with --train.
    data
        Clip store: its test clips are the queries, its training clips the gallery.
    train
        Train on real clips of this store instead: the ceiling, or with --train-vpc a random floor.
    output
        Result to write (.json); it grows with every seed.
    label
        Name of the row in tables.
    resume
        Keep the seeds that the result has already, and train those it lacks.
    """
    from prism.evaluation.retrieve import retrieve as run

    with opened(engine, address) as executor:
        result = run(
            condensed,
            data,
            config,
            train_store=train,
            output=output,
            label=label,
            resume=resume,
            overwrite=overwrite,
            device=device,
            workers=workers,
            executor=executor,
            progress=progress,
        )
    say(str(result))


@app.command
def reproduce(
    name: str = "",
    /,
    *,
    data: Annotated[list[Path], Parameter(negative="", consume_multiple=True)] = [],  # noqa: B006
    output: Output = Path("runs/reproduce"),
    scale: Scale = "full",
    seeds: int = 1,
    recipe: Annotated[list[Path], Parameter(negative="", consume_multiple=True)] = [],  # noqa: B006
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    device: DeviceOption = "auto",
    engine: EngineOption = "local",
    address: AddressOption = None,
    progress: ProgressOption = True,
) -> None:
    """Run what a table of the paper needs and is not there yet, and set the paper's numbers beside ours.

    Example: prism reproduce table1 --data runs/store --scale small

    Parameters
    ----------
    name
        Table or figure of the paper; --list names them.
    data
        Clip stores to reproduce it on.
    output
        Folder of everything that is made; all tables share it, and the same command goes on after a kill.
    scale
        full: the paper's settings. small: networks, iterations and epochs for two CPU cores.
    seeds
        Condensations and selections of each set, with seeds 0, 1, …
    recipe
        Recipes whose options win over the paper's and the scale's.
    list_
        Say which tables and figures there are.
    dry_run
        Only say which commands are missing.
    """
    from rich.console import Console

    if list_ or not name:
        from prism.reproduction.paper import exhibits

        for exhibit in exhibits().values():
            say(f"{exhibit.name:<15} {exhibit.title}. {', '.join(exhibit.cells)}. {exhibit.place}.")
        return
    if not data:
        raise ConfigError("reproduce needs --data with a clip store, or --list.")
    from prism.reproduction.run import reproduce as run

    with opened(engine, address) as executor:
        found = run(
            name,
            data,
            output,
            scale=scale,
            seeds=seeds,
            recipes=recipe,
            dry_run=dry_run,
            device=device,
            executor=executor,
            progress=progress,
        )
    if not dry_run:
        Console().print(found.summary_table())
        say(f"Page: {(output / f'{name}-{scale}.html').resolve()}")


@app.command
def report(
    results: Annotated[list[Path], Parameter(negative="")], /, *, output: Output, overwrite: Overwrite = False
) -> None:
    """Make one self-contained page of results: table, plots, and the condensed videos playing.

    Example: prism report runs/*.json -o runs/page.html

    Parameters
    ----------
    results
        Result files, from prism evaluate and prism retrieve.
    output
        Page to write (.html).
    """
    from rich.console import Console

    from prism.artifacts.results import Result
    from prism.reports.page import report as write
    from prism.reports.tables import summary_tables

    page = write(results, output, overwrite=overwrite)
    for table in summary_tables(Result.load(path) for path in results):
        Console().print(table)
    say(f"Page: {page.resolve()}")


@app.command
def info(path: Path, /, *, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Say what a store, condensed set or result is, in a few lines.

    Example: prism info runs/set.safetensors

    Parameters
    ----------
    path
        A store's folder, a condensed set or a result.
    json
        Print everything as JSON.
    """
    from prism.artifacts.info import describe, in_brief
    from prism.machine.texts import canonical_json

    facts = describe(path)
    say(
        canonical_json(facts, indent=1)
        if json
        else "\n".join(f"{key:<14} {in_brief(value)}" for key, value in facts.items())
    )


def say(text: str) -> None:
    """Print a line for the user."""
    print(shown(text), flush=True)


def complain(text: str) -> None:
    """Print one line on stderr."""
    print("prism: " + shown(text).replace("\n", "\\n"), file=sys.stderr)


def shown(text: str) -> str:
    """Text for a terminal: what would move its cursor or colours is spelled out."""
    return "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)


def run(command: Callable[[], Any]) -> int:
    """Run a command and turn what a user caused into one sentence and an exit code."""
    try:
        command()
    except PrismError as error:
        complain(str(error))
        return error.exit_code
    except CycloptsError as error:
        complain(" ".join(str(error).split()))
        return 2
    except KeyboardInterrupt:
        complain("interrupted.")
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough, `| head` for one; the rest of it must not raise at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        complain(f"'{error.filename or 'standard output'}' cannot be used: {error.strerror}.")
        return 1
    return 0


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the `prism` command."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(lambda: app(given, exit_on_error=False, print_error=False)))
