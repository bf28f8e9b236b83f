"""The commands that make data sets: `motion`, `ingest`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from prism.cli.commands import call, command
from prism.cli.options import LOCAL, WHERE, Output, Running
from prism.cli.said import say, wrote
from prism.condensation.options import CondenseConfig
from prism.errors import ConfigError
from prism.ingestion.options import IngestConfig, MotionConfig
from prism.recipes import read_recipe


@command(MotionConfig)
def motion(*, output: Output, run: Running = LOCAL, config: MotionConfig | None = None) -> None:
    """Write a built-in data set as real video files: classes that differ only in motion, or in looks and motion.

    Example: prism motion -o runs/motion

    Parameters
    ----------
    output
        Folder to write.
    """
    from prism.ingestion.motion import write_motion

    call(write_motion, output, config=config, run=run)
    wrote(output)


@command(IngestConfig)
def ingest(
    source: Path,
    /,
    *,
    output: Output,
    workers: Annotated[int | None, Parameter(group=WHERE)] = None,
    run: Running = LOCAL,
    config: IngestConfig | None = None,
) -> None:
    """Decode a labelled folder of videos into a clip store. Run it again after a kill: it goes on.

    Example: prism ingest videos/ -o runs/store --num-frames 8 --size 64

    Parameters
    ----------
    source
        root/<class>/*.mp4, root/{train,val,test}/<class>/*, a CSV (path,label, perhaps split and group),
        folders of frames, or with --layout the folder of a data set with its official lists.
    output
        Store to write (a folder).
    workers
        Processes that decode; all cores by default.
    """
    from prism.ingestion.build import ingest as build
    from prism.networks.build import build_for

    store = call(build, source, output, config=config, run=run, workers=workers)
    wrote(output, store.contents)
    if store.header.num_skipped:
        say(f"Skipped {store.header.num_skipped} videos; {output / 'skipped.csv'} says why.")
    for split in ("val", "test"):
        counts = zip(store.classes, store.counts(split).tolist(), strict=True)
        without = [name for name, count in counts if count == 0]
        if without and len(store.positions(split)):
            say(f"Caution: no {split} clips of {', '.join(without)}; {split} accuracy says nothing of them.")
    model = read_recipe(*run.recipe or ()).get("condense", {}).get("model", CondenseConfig().model)
    try:
        build_for(store, model, "meta")
    except ConfigError as error:
        say(f"Caution: {error} Of those that come with PRISM, --model cnn-gru takes the smallest.")
