"""The commands that make sets, and hand them on: `condense`, `select`, `export`."""

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from prism.cli.commands import call, command
from prism.cli.options import LOCAL, WHERE, Output, Running
from prism.cli.said import resumes, say, wrote
from prism.condensation.options import CondenseConfig
from prism.exports.options import ExportConfig
from prism.selection.options import SelectConfig


@command(CondenseConfig)
def condense(
    store: Path,
    /,
    *,
    output: Output,
    checkpoint_seconds: Annotated[float, Parameter(group=WHERE)] = 60.0,
    run: Running = LOCAL,
    config: CondenseConfig | None = None,
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
    """
    from prism.condensation.checkpoint import checkpoint_path, shards_path
    from prism.condensation.condense import condense as verb
    from prism.condensation.unseen import sentence_of

    resumes(run, output, output, checkpoint_path(output), shards_path(output))
    condensed = call(verb, store, config=config, run=run, output=output, checkpoint_seconds=checkpoint_seconds)
    wrote(output, condensed.contents)
    say(sentence_of(condensed))


@command(SelectConfig)
def select(
    store: Path,
    /,
    *,
    output: Output,
    run: Running = LOCAL,
    config: SelectConfig | None = None,
) -> None:
    """Pick real training clips: by default one for each video, kept exactly; with takes random subsets of more.

    Example: prism select runs/store -o runs/herding.safetensors --method herding --vpc 1

    Parameters
    ----------
    store
        Clip store, from prism ingest.
    output
        Condensed set to write (.safetensors).
    """
    from prism.selection.select import select as verb

    made = call(verb, store, config=config, run=run, output=output)
    wrote(output, made.contents)


@command(ExportConfig)
def export(
    condensed: Path,
    /,
    *,
    output: Output,
    result: Path | None = None,
    run: Running = LOCAL,
    config: ExportConfig | None = None,
) -> None:
    """Write the videos of a condensed set in a format that other tools read, with a card that describes it.

    Example: prism export runs/set.safetensors -o runs/folder --to videofolder

    Parameters
    ----------
    condensed
        Condensed set, from prism condense or prism select.
    output
        Folder to write; a file with --to gif, webp or mp4.
    result
        Result of prism evaluate or prism retrieve on this set, for the card.
    """
    from prism.exports.export import export as verb

    made = call(verb, condensed, output, config=config, run=run, result=result)
    say(str(made))
    if made.loss.psnr < float("inf"):
        say("--lossless keeps every 8-bit pixel, --to tensors every value.")
    if made.path.is_dir():
        say(f"Fill in the licence in {made.path / 'README.md'}.")
        say(f"Then: {shlex.join(('hf', 'upload', 'NAME', str(made.path), '--repo-type', 'dataset'))}")
