"""The commands that judge sets: `evaluate`, `retrieve`, `rank`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from prism.cli.commands import call, command, reach_own_parts
from prism.cli.options import Rating, Scoring
from prism.cli.said import report_next, resumes, say, wrote
from prism.config import Options
from prism.evaluation.options import EvaluateConfig, RankConfig, RetrieveConfig


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
    report_next(run.output)


@command(RankConfig)
def rank(
    sets: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    run: Rating,
    config: RankConfig | None = None,
) -> None:
    """Ask whether sets put networks and hyper-parameters in the order that all training clips do.

    Example: prism rank runs/set.safetensors runs/random.safetensors --data runs/store -o runs/ranking.json

    Parameters
    ----------
    sets
        Condensed sets to train the candidates on. Those that were made alike are summed up; the first kind is
        compared with the others.
    run.data
        Clip store: its training clips give the order to be found, its split val scores.
    run.output
        Ranking to write (.json); it grows with every candidate. Tables (.md, .csv) and a plot (.svg) go beside it.
    run.resume
        Keep the networks that the ranking has already, and train those it lacks.
    """
    from rich.console import Console

    from prism.artifacts.kinds import check_output_kind
    from prism.evaluation.candidates import read_candidates
    from prism.evaluation.rank import rank as verb
    from prism.reports.rankings import beside, summary_table, write_tables

    output = run.output
    if output is not None:
        for path in beside(output):
            # Beside a ranking to be resumed lie its own tables; where there is none, they are a stranger's.
            check_output_kind(path, "a table or a plot", run.overwrite or (run.resume and output.exists()))
        resumes(run, output, output)
    for candidate in read_candidates(run.candidates).values():
        reach_own_parts(str, candidate.model)
    found = call(
        *(verb, sets, run.data),
        config=config,
        run=run,
        output=output,
        candidates=run.candidates,
        workers=run.workers,
    )
    if output is not None:
        write_tables(found, output)
    Console().print(summary_table(found))
    if output is None:
        say("Nothing was written; -o RANKING.json keeps the ranking.")
        return
    say(f"Wrote {output}, and beside it {', '.join(path.name for path in beside(output))}.")
    report_next(output)
