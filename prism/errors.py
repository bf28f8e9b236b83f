"""Errors that a user can cause, or has to know about.

The command line prints the message of a `PrismError` as one sentence and exits with its `exit_code`. Any other
exception is a defect of PRISM and shows its traceback.
"""

import difflib
from collections.abc import Callable, Iterable

AGAIN = "Run the same command again, with --resume where it has one."
"""Advice after what stops a run but loses nothing; `--resume` also starts what had not begun."""


class PrismError(Exception):
    """Base of every error that a user can cause, or has to know about."""

    exit_code = 1


class ConfigError(PrismError):
    """An option or a recipe is wrong."""

    exit_code = 2


class SourceError(PrismError):
    """The folder, list, annotation or data set to read clips from is wrong."""


class VideoError(PrismError):
    """One video cannot be used; `ingest` skips it and lists the reason."""


class ClipError(PrismError):
    """Clips have the wrong shape, type or labels."""


class ArtifactError(PrismError):
    """A store, condensed set, result or checkpoint is damaged, foreign or too new."""


class OutputError(PrismError):
    """The output exists already, cannot be written, or the disk is full."""


class BusyError(OutputError):
    """Another run is writing the output."""


class EngineError(PrismError):
    """An executor cannot be reached, or the executor or the GPU has lost a computation."""


class DivergedError(PrismError):
    """A loss is not finite, or every trained network gives all clips the same embedding."""


class Interrupted(PrismError):
    """A signal stopped the run; the message says how to continue."""

    exit_code = 130


def nearest(word: str, allowed: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """` Did you mean 'x'?` with the most similar allowed word, as `shown` writes it; empty if none is similar."""
    allowed = list(allowed)
    # Words that `word` begins with count too: `lr_img` is not similar to `lr`, but begins with it.
    longer = [one for one in allowed if word.startswith(one)]
    found = difflib.get_close_matches(word, allowed, n=1, cutoff=0.6) or longer[:1]
    return f" Did you mean '{shown(found[0])}'?" if found else ""
