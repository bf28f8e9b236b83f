"""The run of a reproduction: do missing steps, skip finished ones, and write the table after every step."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.condensation.condense import condense
from prism.condensation.given import given_set, recorded_options
from prism.condensation.options import CondenseConfig
from prism.condensation.prepare import Setup
from prism.config import as_dict, as_list, as_path
from prism.errors import BusyError, DivergedError, Interrupted
from prism.evaluation.evaluate import evaluate
from prism.machine.devices import plain_torch
from prism.machine.files import lock, write_atomically
from prism.machine.progress import note
from prism.machine.provenance import check_same_run
from prism.machine.run import Run, run_of
from prism.reports.page import build_page
from prism.reproduction.compare import Comparison, Done, measured
from prism.reproduction.paper import exhibit
from prism.reproduction.plan import ScoreStep, SetStep, plan
from prism.selection.options import SelectConfig
from prism.selection.select import select


@plain_torch()
def reproduce(
    name: str,
    data: Sequence[ClipStore | str | Path],
    output: str | Path = "runs/reproduce",
    run: Run | None = None,
    *,
    scale: str = "full",
    seeds: int = 1,
    recipes: Sequence[str | Path] = (),
    vpc: Collection[int] = (),
    rows: Collection[str] = (),
    networks: Collection[str] = (),
    dry_run: bool = False,
    **options: Any,
) -> Comparison:
    """Measure the numbers of a table or figure of the paper, and compare them with the paper's.

    Sets and results are kept under `output` and shared by all tables: an existing file is not made again, and an
    interrupted step is continued. The table is written after every step, and a page at the end.

    Args:
        name: a key of `exhibits()`.
        data: clip stores, or their folders.
        run: device, executor and progress, for every verb. The executor computes independent classes of a set,
            and networks of a result, in parallel.
        scale: `full`, the paper's settings, or `small`, for two CPU cores.
        seeds: sets of each row: condensations or selections with seeds 0, 1, …. A condensation adds its seed to
            `network_seed`. Set s is evaluated by K networks of its own, with seeds s·K to s·K + K − 1.
        recipes: recipes whose options win over the paper's, later ones over earlier ones.
        vpc: videos per class to which the table is restricted (training on all clips stays); all by default.
        rows, networks: names to which the table is restricted, such as `prism`, `dm`, `whole`; all by default.
        dry_run: do nothing; `Comparison.missing` has the commands of the missing steps.
        options: fields of `prism.machine.run.Run`.

    Raises:
        ConfigError: the table or an option is unknown, or the data does not fit it.
        ArtifactError: a set or result of that name was made with other options.
        EngineError, Interrupted: the executor lost a task, or a signal stopped the run; the same call resumes it.
    """
    chosen, folder, run = exhibit(name), as_path(output), run_of("reproduce", run, options)
    stores = [ClipStore.of(store) for store in as_list(data, "clip stores")]
    recipes, vpc = as_list(recipes, "recipes"), as_list(vpc, "numbers of videos per class")
    rows, networks = as_list(rows, "rows"), as_list(networks, "networks")
    only = {"vpc": vpc, "rows": rows, "networks": networks}
    lines = plan(chosen, stores, folder, scale=scale, seeds=seeds, recipes=recipes, **only)
    of = [store.fingerprint[:8] for store in stores] + [f"vpc{count}" for count in sorted(set(vpc))]
    of += [*sorted(set(rows)), *sorted(set(networks)), *([f"seeds{seeds}"] if seeds > 1 else [])]
    done, path = Done(), folder / "-".join((name, scale, *of))
    # Every step once, and each set before its scores.
    steps = list({step.path: step for line in lines for step in (*line.sets, *line.scores)}.values())
    missing = [step for step in steps if not _take(step, done)]
    if dry_run:
        note("" if missing else "Nothing is missing.")
        return Comparison(chosen, scale, measured(lines, done), path, tuple(step.command for step in missing))
    for count, step in enumerate(steps, 1):
        # A result may be of a set that this loop has made again with the same bytes.
        if step in missing and not _take(step, done):
            note(f"[{count}/{len(steps)}] {step.command}", enabled=run.progress)
            _run(step, done, run)
            _take(step, done)
            Comparison(chosen, scale, measured(lines, done), path).save()
    for step in steps:
        # A killed run may have left the lock of a finished step; taking the lock removes it.
        with suppress(BusyError), lock(step.path):
            pass
    found = Comparison(chosen, scale, measured(lines, done), path)
    found.save()
    shown = [result for result in done.results.values() if result.runs]
    with lock(page := found.file(".html")):
        write_atomically(page, build_page(shown, [replace(found.sheet, plots=found.plots)]).encode())
    return found


def _take(step: SetStep | ScoreStep, done: Done) -> bool:
    """Whether a step is done; reads its file into `done`. ArtifactError if it was made with other options."""
    if not step.path.exists():
        return False
    if isinstance(step, SetStep):
        config, condensed = step.config, CondensedSet.load(step.path)
        found = {"store": condensed.source.get("store"), "config": condensed.source.get("config")}
        is_condensed = isinstance(config, CondenseConfig)
        options = recorded_options(config, given_set(step.store, config)) if is_condensed else as_dict(config)
        check_same_run(f"'{step.path}'", found, {"store": step.store.fingerprint, "config": options})
        done.sets[step.path] = condensed.fingerprint
        return True
    if step.made and step.made.path not in done.sets:
        return False
    result = Result.load(step.path)
    # The number of seeds may differ: only networks that are missing are trained.
    config = {**as_dict(step.config), "seeds": result.config.get("seeds")}
    subject = done.sets[step.made.path] if step.made else step.store.fingerprint
    found = {"config": result.config, "data": result.data.fingerprint, "set": result.subject.fingerprint}
    check_same_run(f"'{step.path}'", found, {"config": config, "data": step.store.fingerprint, "set": subject})
    # Several tables share a file, each with its own label.
    done.results[step.path] = replace(result.of_seeds(step.config.all_seeds), label=step.label)
    return {run.seed for run in result.runs} >= set(step.config.all_seeds)


def _run(step: SetStep | ScoreStep, done: Done, run: Run) -> None:
    """Do a step by its verb; divergence is recorded in `done` rather than raised."""
    store, how = step.store, replace(run, output=step.path, resume=True)
    try:
        if isinstance(step, ScoreStep):
            if step.made is not None and step.made.path in done.failures:
                return
            condensed, train = (step.made.path, None) if step.made else (None, store)
            label = Result.load(step.path).label if step.path.exists() else step.label
            evaluate(condensed, store, step.config, how, train=train, label=label)
        elif isinstance(step.config, SelectConfig):
            select(store, step.config, replace(run, output=step.path, executor=None))
        else:
            is_apart = run.executor and Setup(store, step.config).independent_classes
            condense(store, step.config, replace(how, executor=run.executor if is_apart else None))
    except DivergedError as error:
        # The rest of the table is still useful; the next run tries this step again.
        done.failures[step.path] = str(error)
        note(f"prism: {error}", enabled=run.progress)
    except Interrupted:
        raise Interrupted("stopped; run the same command again to go on.") from None
