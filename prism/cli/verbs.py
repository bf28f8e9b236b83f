"""The commands of `prism`, one function for each verb."""

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

import prism
from prism.cli.commands import FLAG, LOCAL, MANY, OUTPUT, PLACED, WHOLE, Help, Running, Workers, call, command, say
from prism.condensation.options import CondenseConfig
from prism.errors import ArtifactError, ConfigError
from prism.evaluation.options import EvaluateConfig
from prism.exports.options import ExportConfig
from prism.ingestion.options import IngestConfig, MotionConfig
from prism.recipes import shipped_recipes
from prism.selection.options import SelectConfig

SOURCES = (
    "root/<class>/*.mp4, root/{train,val,test}/<class>/*, a CSV (path,label, perhaps split and group), "
    "folders of frames, or with --layout the folder of a data set with its official lists."
)
Store = Annotated[Path, Help("Clip store, from prism ingest.")]
Folder = Annotated[Path, OUTPUT, Help("Folder to write.")]
Set = Annotated[Path, OUTPUT, Help("Condensed set to write (.safetensors).")]
Seconds = Annotated[float, PLACED, Help("Seconds between two checkpoints: what a kill can lose.")]
TRAIN = "Train on real clips of this store instead: the ceiling, or with --train-vpc a random floor."


@command
def motion(*, output: Folder, run: Running = LOCAL, config: MotionConfig | None = None) -> None:
    """Write a built-in data set as real video files: classes that differ only in motion, or in looks and motion.

    Example: prism motion -o runs/motion
    """
    call(prism.write_motion, output, config=config, run=run)
    say(f"Wrote {output}.")


@command
def ingest(
    source: Annotated[Path, Help(SOURCES)],
    /,
    *,
    output: Folder,
    workers: Annotated[Workers, Help("Processes that decode; all cores by default.")] = None,
    run: Running = LOCAL,
    config: IngestConfig | None = None,
) -> None:
    """Decode a labelled folder of videos into a clip store. Run it again after a kill: it goes on.

    Example: prism ingest videos/ -o runs/store --num-frames 8 --size 64
    """
    store = call(prism.ingest, source, output, config=config, run=run, workers=workers)
    say(f"Wrote {output}: {store.contents}.")


@command
def condense(
    store: Store,
    /,
    *,
    output: Set,
    checkpoint_seconds: Seconds = 60.0,
    run: Running = LOCAL,
    config: CondenseConfig | None = None,
) -> None:
    """Turn the training clips of a store into a few synthetic videos per class.

    Example: prism condense runs/store -o runs/set.safetensors --recipe small
    """
    from prism.condensation.condense import sentence_of

    given = {"output": output, "checkpoint_seconds": checkpoint_seconds}
    condensed = call(prism.condense, store, config=config, run=run, **given)
    say(f"Wrote {output}: {condensed.contents}.\n{sentence_of(condensed)}")


@command
def select(store: Store, /, *, output: Set, run: Running = LOCAL, config: SelectConfig | None = None) -> None:
    """Pick real training clips: by default one for each video, kept exactly; with takes random subsets of more.

    Example: prism select runs/store -o runs/herding.safetensors --recipe small --method herding
    """
    made = call(prism.select, store, config=config, run=run, output=output)
    say(f"Wrote {output}: {made.contents}.")


@command
def export(
    condensed: Annotated[Path, Help("Condensed set, or with --to gif a store.")],
    /,
    *,
    output: Annotated[Path, OUTPUT, Help("Folder to write; with --to gif a file.")],
    run: Running = LOCAL,
    config: ExportConfig | None = None,
) -> None:
    """Write the videos of a condensed set in a format that other tools read.

    Example: prism export runs/set.safetensors -o runs/folder --to videofolder
    """
    made = call(prism.export, condensed, output, config=config, run=run)
    say(str(made))
    if made.psnr is not None and made.psnr < float("inf") and not (config and config.lossless):
        say("--lossless keeps every 8-bit pixel, --to tensors every value.")


@command
def evaluate(
    condensed: Annotated[Path | None, Help("Condensed set to train on; leave it out with --train.")] = None,
    /,
    *,
    data: Annotated[Path, Help("Clip store to score on.")],
    train: Annotated[Path | None, Help(TRAIN)] = None,
    output: Annotated[Path | None, OUTPUT, Help("Result to write (.json); it grows with every seed.")] = None,
    label: Annotated[str | None, Help("Name of the row in tables.")] = None,
    workers: Annotated[Workers, Help("Networks trained side by side, at most; all cores by default.")] = None,
    run: Running = LOCAL,
    config: EvaluateConfig | None = None,
) -> None:
    """Train fresh networks on a set and score them on real clips; the default protocol chooses nothing on those.

    Example: prism evaluate runs/set.safetensors --data runs/store -o runs/set.json --recipe small
    """
    given = {"output": output, "train": train, "label": label, "workers": workers}
    say(str(call(prism.evaluate, condensed, data, config=config, run=run, **given)))
    say(f"Wrote {output}." if output else "Nothing was written; -o RESULT.json keeps the result.")


@command
def report(
    results: Annotated[list[Path], Parameter(negative="", help="Result files, from prism evaluate.")],
    /,
    *,
    output: Annotated[Path, OUTPUT, Help("Page to write (.html).")],
    over: Annotated[str, Help("Label of a row, over which leads are shown, too.")] = "",
    run: Running = LOCAL,
) -> None:
    """Make one self-contained page of results: table, plots, and the condensed videos playing.

    Example: prism report runs/*.json -o runs/page.html
    """
    from rich.console import Console

    from prism.reports.page import load_results, summary_tables

    page = prism.report(results, output, overwrite=run.overwrite, over=over)
    for table, cautions in summary_tables(load_results(results), over):
        Console().print(table)
        for caution in cautions:
            say(caution)
    say(f"Wrote {page.resolve()}: open it in a browser.")


@command
def reproduce(
    name: Annotated[str, Help("Table or figure of the paper; --list names them.")] = "",
    /,
    *,
    data: Annotated[list[Path], MANY, Help("Clip stores to reproduce it on.")] = [],  # noqa: B006
    output: Annotated[Path, OUTPUT, Help("Folder of all tables.")] = Path("runs/reproduce"),
    scale: Annotated[Literal["full", "small"], Help("The paper's settings, or for two CPU cores.")] = "full",
    seeds: Annotated[int, WHOLE, Help("Condensations and selections of each set.")] = 1,
    vpc: Annotated[list[int], MANY, WHOLE, Help("Only these videos per class.")] = [],  # noqa: B006
    rows: Annotated[list[str], MANY, Help("Only these rows of --list: prism, dm, random, …")] = [],  # noqa: B006
    networks: Annotated[list[str], MANY, Help("Only these networks: convnet3d, cnn-gru, cnn-lstm.")] = [],  # noqa: B006
    recipe: Annotated[list[Path], MANY, Help("Recipes that win over the paper's.")] = [],  # noqa: B006
    list_: Annotated[bool, Parameter("--list", negative="", help="Say which tables there are.")] = False,
    dry_run: Annotated[bool, FLAG, Help("Only say which commands are missing.")] = False,
    run: Running = LOCAL,
) -> None:
    """Run what a table of the paper needs and is not there yet, and set the paper's numbers beside ours.

    Example: prism reproduce table1 --data runs/store --scale small
    """
    from rich.console import Console

    if list_ or not (name or data):
        from prism.reproduction.paper import exhibits

        for exhibit in exhibits().values():
            named = ",".join(dict.fromkeys(cell.name for cells in exhibit.cells.values() for cell in cells))
            say(f"{exhibit.name:<15} {exhibit.title}. {', '.join(exhibit.cells)}. {exhibit.place}. Rows: {named}.")
        return
    if not (name and data):
        raise ConfigError("reproduce needs the name of a table, and then --data with a clip store; or --list.")
    rows, networks = ([name for given in some for name in given.split(",")] for some in (rows, networks))
    chosen = {"scale": scale, "seeds": seeds, "recipes": recipe, "vpc": vpc, "rows": rows, "dry_run": dry_run}
    found = call(prism.reproduce, name, data, output, run=run, networks=networks, **chosen)
    if dry_run:
        # On stdout, so that a shell can write the commands to a file.
        for command in found.missing:
            say(command)
    else:
        Console().print(found.summary_table())
        say(f"Wrote {found.file('.html').resolve()}: the table as a page.")


@command
def recipes() -> None:
    """List the recipes that PRISM ships.

    Example: prism recipes
    """
    for name, title in shipped_recipes().items():
        say(f"{name:<30} {title}")


@command
def info(path: Annotated[Path, Help("A store, a condensed set or a result.")], /) -> None:
    """Say what a store, condensed set or result is, and the options that made it.

    Example: prism info runs/set.safetensors
    """
    from prism.artifacts.kinds import JSON, RESULT, SET, STORE, TENSORS, kind_of

    kind = kind_of(path)
    if kind == STORE:
        store = prism.ClipStore.open(path)
        said, options = f"clip store: {store.contents}", store.header.settings
    elif kind in (RESULT, JSON):
        result = prism.Result.load(path)
        said, options = f"result: {result}", result.config
    elif kind not in (SET, TENSORS):
        raise ArtifactError(f"'{path}' is {kind}, not a condensed set, a result or a clip store.")
    else:
        condensed = prism.CondensedSet.load(path)
        method, options = condensed.source.get("method", "an unknown method"), condensed.source.get("config")
        said = f"condensed set by {method}: {condensed.contents}"
    say(f"{said}\noptions: {json.dumps(options)}")
