"""The commands that score sets: `evaluate`, `retrieve`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prism.cli.commands import call, command
from prism.cli.options import Scoring
from prism.cli.said import resumes, say, wrote
from prism.config import Options
from prism.evaluation.options import EvaluateConfig, RetrieveConfig


@command(EvaluateConfig)
def evaluate(condensed: Path | None = None, /, *, run: Scoring, config: EvaluateConfig | None = None) -> None:
    """Train fresh networks on a set and score them on real clips; the default protocol chooses nothing on those.

    Example: prism evaluate runs/set.safetensors --data runs/store --epochs 500 -o runs/set.json

    Parameters
    ----------
    condensed
        Condensed set to train on; leave it out with --train.
    """
    from prism.evaluation.evaluate import evaluate as verb

    _score(verb, condensed, run, config)


@command(RetrieveConfig)
def retrieve(condensed: Path | None = None, /, *, run: Scoring, config: RetrieveConfig | None = None) -> None:
    """Train embeddings on a set and score them by the real training clips nearest to each test clip.

    Example: prism retrieve runs/set.safetensors --data runs/store --epochs 500 -o runs/set-retrieval.json

    Parameters
    ----------
    condensed
        Condensed set to train on; leave it out with --train.
    run.data
        Clip store: its test clips are the queries, its training clips the gallery.
    """
    from prism.evaluation.retrieve import retrieve as verb

    _score(verb, condensed, run, config)


def _score(verb: Callable[..., Any], condensed: Path | None, run: Scoring, config: Options | None) -> None:
    if run.output is not None:
        resumes(run, run.output, run.output)
    result = call(
        verb,
        condensed,
        run.data,
        config=config,
        run=run,
        output=run.output,
        train_store=run.train,
        label=run.label,
        workers=run.workers,
    )
    say(str(result))
    if run.output is None:
        say("Nothing was written; -o RESULT.json keeps the result.")
        return
    wrote(run.output)
