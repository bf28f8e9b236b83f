"""The `prism` command: one function for each verb. The only place that parses arguments or prints."""

import errno
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

from cyclopts import App, ArgumentCollection, CycloptsError, Group, MissingArgumentError, Parameter
from cyclopts.config import Dict

from prism.condensation.options import CondenseConfig
from prism.config import Options, described
from prism.errors import ConfigError, PrismError
from prism.evaluation.options import EvaluateConfig, RankConfig, RetrieveConfig
from prism.exports.options import ExportConfig
from prism.ingestion.options import IngestConfig, MotionConfig
from prism.machine.allocation import keep_freed_memory
from prism.machine.devices import Device, let_waiting_threads_sleep
from prism.machine.executors import Engine, opened
from prism.machine.provenance import versions
from prism.machine.run import Run
from prism.parts import NAME
from prism.recipes import SECTIONS, read_recipe
from prism.reports.text import printable
from prism.selection.options import SelectConfig

if TYPE_CHECKING:
    from prism.artifacts.condensed import CondensedSet

WHERE = Group("Where it runs", sort_key=99)
FLAT = Parameter(name="*")
Verb = TypeVar("Verb", bound=Callable[..., Any])

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


@dataclass(frozen=True, kw_only=True)
class Rated:
    """The files of `rank`."""

    data: Path
    """Clip store."""
    candidates: Path | None = None
    """TOML file with a table of options for each candidate; by default 12 small networks."""
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None
    """Ranking to write (.json)."""


@dataclass(frozen=True, kw_only=True)
class Rating(Running, Rated):
    """How `rank` runs, and on which files."""

    workers: Annotated[int | None, Parameter(group=WHERE)] = None
    """Candidates that are trained side by side, at most; all cores by default. No score depends on it."""


LOCAL = Running()

FIRST_SESSION = """\
PRISM: video dataset condensation. The commands of a first session, with videos that are drawn:

  prism motion -o runs/videos --kind glyphs --size 48
  prism ingest runs/videos -o runs/store --num-frames 8 --stride 2 --size 48 --name "Moving signs"
  prism condense runs/store -o runs/prism.safetensors --recipe small
  prism select runs/store -o runs/random.safetensors --recipe small
  prism evaluate runs/prism.safetensors --data runs/store -o runs/prism.json --recipe small
  prism evaluate runs/random.safetensors --data runs/store -o runs/random.json --recipe small
  prism report runs/prism.json runs/random.json -o runs/page.html

Your own videos, <class>/*.mp4 in a folder, need no prism motion. `prism --help` lists all commands."""


def apply_recipe(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill the options that the command line left open from the recipes it names."""
    given = [token.value for argument in arguments if argument.name == "--recipe" for token in argument.tokens]
    if given and commands:
        verb, recipe = commands[0], read_recipe(*given)
        if verb in SECTIONS and verb not in recipe:
            named = " and ".join(given)
            print(f"Recipe {named} says nothing of prism {verb}, which has its defaults.", file=sys.stderr)
        Dict(recipe.get(verb, {}), use_commands_as_keys=False, source=" and ".join(given))(
            app, commands, arguments
        )


app = App(
    name="prism",
    help="Video dataset condensation: a labelled folder of clips becomes a few synthetic videos per class.",
    help_format="plaintext",
    config=apply_recipe,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    version=lambda: versions()["prism"],
)


def command(config: type[Options] | None = None, without: tuple[str, ...] = ()) -> Callable[[Verb], Verb]:
    """Make a function a command of `prism`.

    Args:
        config: the options of its verb.
        without: fields of `Running` that its verb has no use for.
    """

    def registered(function: Verb) -> Verb:
        hints = function.__annotations__
        if config is not None:
            hints["config"] = Annotated[_grouped(config), FLAT]
        if "run" in hints:
            hidden = [(name, Annotated[Any, Parameter(parse=False)], getattr(LOCAL, name)) for name in without]
            hints["run"] = Annotated[_derived(hints["run"], hidden), FLAT]
        app.command(function)
        return function

    return registered


def _grouped(config: type[Options]) -> type:
    """The options of a verb with groups and ranges for the help; calling this class makes a plain `config`."""
    groups: dict[str, Group] = {}
    hints, fields = get_type_hints(config, include_extras=True), []
    for name, field in described(config).items():
        parameter = Parameter(
            group=groups.setdefault(field.group, Group(field.group, sort_key=len(groups))),
            show_default=_default_and_range(field.range) if field.range and not field.choices else True,
            validator=reach_own_parts if field.parts else None,
        )
        fields.append((name, Annotated[hints[name], parameter], field.default))
    return _derived(config, fields, __new__=lambda cls, **given: config(**given))


def _default_and_range(limits: str) -> Callable[[Any], str]:
    return lambda default: f"{default}; {limits}" if default != "" else f'""; {limits}'


def _derived(base: type, fields: list[tuple[str, Any, Any]], **namespace: Any) -> type:
    # Python puts such classes into the module `types`, and cyclopts takes them for simple types there.
    namespace["__module__"] = __name__
    # The methods of the base serve: to make them anew for each class takes a tenth of the time of `prism --help`.
    return make_dataclass(
        base.__name__, fields, bases=(base,), namespace=namespace, frozen=True, init=False, repr=False, eq=False
    )


def reach_own_parts(kind: Any, value: Any) -> None:
    """Make the working directory importable, as `python -m` does, if a value names a part of the user's own."""
    if isinstance(value, str) and NAME.fullmatch(value) and "" not in sys.path:
        sys.path.insert(0, "")


def call(verb: Callable[..., Any], *inputs: Any, run: Running, **given: Any) -> Any:
    """Call a verb with a run as the command line describes it."""
    with opened(run.engine, run.address) as executor:
        how = Run(None, run.resume, run.overwrite, run.device, executor, run.progress)
        return verb(*inputs, run=how, **given)


@command(MotionConfig, without=("resume", "device", "engine", "address"))
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
    size = (config or MotionConfig()).size
    next_is("ingest", output, "-o", output.parent / "store", "--num-frames", 8, "--size", size, run=run)


@command(IngestConfig, without=("resume", "device"))
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
        root/<class>/*.mp4, root/{train,val,test}/<class>/*, a CSV (path,label,split), folders of frames, or with
        --layout the folder of a data set with its official lists.
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
    reach_own_parts(str, model)
    try:
        build_for(store, model, "meta")
    except ConfigError as error:
        say(f"Caution: {error} Of those that come with PRISM, --model cnn-gru takes the smallest.")
        return
    next_is("condense", output, "-o", output.parent / "prism.safetensors", run=run)


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
    evaluate_next(condensed, output, store, run)


@command(SelectConfig, without=("resume", "engine", "address"))
def select(
    store: Path,
    /,
    *,
    output: Output,
    from_list: Path | None = None,
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
    from_list
        Text or CSV file with the paths of the videos to take, as another tool has chosen them.
    """
    from prism.selection.select import select as verb

    made = call(verb, store, config=config, run=run, output=output, from_list=from_list)
    counts = zip(made.classes, made.labels.bincount(minlength=len(made.classes)).tolist(), strict=True)
    if without := [name for name, count in counts if count == 0]:
        say(f"Caution: the list has no clip of {', '.join(without)}, which no network can then learn.")
    wrote(output, made.contents)
    evaluate_next(made, output, store, run)


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

    from prism.evaluation.candidates import read_candidates
    from prism.evaluation.rank import rank as verb
    from prism.machine.files import check_output_file
    from prism.reports.rankings import beside, summary_table, write_tables

    output = run.output
    for path in () if output is None else beside(output):
        check_output_file(path, run.overwrite or run.resume)
    if output is not None:
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
    Console().print(summary_table(found))
    if output is None:
        say("Nothing was written; -o RANKING.json keeps the ranking.")
        return
    write_tables(found, output)
    say(f"Wrote {output}, and beside it {', '.join(path.name for path in beside(output))}.")
    page = output.parent / "page.html"
    next_is("report", output, "-o", page, *(["--overwrite"] if page.exists() else []))


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
    page = run.output.parent / "page.html"
    next_is("report", run.output, "-o", page, *(["--overwrite"] if page.exists() else []))


@command(without=("recipe", "resume", "overwrite"))
def reproduce(
    name: str = "",
    /,
    *,
    data: Paths = [],  # noqa: B006
    output: Output = Path("runs/reproduce"),
    scale: Literal["full", "small"] = "full",
    seeds: int = 1,
    vpc: Annotated[list[int], Parameter(consume_multiple=True, negative="")] = [],  # noqa: B006
    recipe: Paths = [],  # noqa: B006
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    dry_run: Flag = False,
    run: Running = LOCAL,
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
    vpc
        Videos per class that the table is restricted to; all by default.
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
    from prism.reproduction.run import reproduce as verb

    for options in read_recipe(*recipe).values():
        for value in options.values():
            reach_own_parts(str, value)
    chosen = {"scale": scale, "seeds": seeds, "recipes": recipe, "vpc": vpc, "dry_run": dry_run}
    found = call(verb, name, data, output, run=run, **chosen)
    if not dry_run:
        Console().print(found.summary_table())
        wrote((output / f"{name}-{scale}.html").resolve(), "the table as a page")
        next_is("reproduce", "--list")


@command(without=("recipe", "resume", "device", "engine", "address", "progress"))
def report(
    results: Annotated[list[Path], Parameter(negative="")], /, *, output: Output, run: Running = LOCAL
) -> None:
    """Make one self-contained page of results: table, plots, and the condensed videos playing.

    Example: prism report runs/*.json -o runs/page.html

    Parameters
    ----------
    results
        Result files, from prism evaluate and prism retrieve, and rankings, from prism rank.
    output
        Page to write (.html).
    """
    from rich.console import Console

    from prism.artifacts.rankings import Ranking
    from prism.reports.advice import next_command
    from prism.reports.page import report as write
    from prism.reports.rankings import summary_table as ranking_table
    from prism.reports.rows import build_rows, groups
    from prism.reports.sources import apart_from_rankings, load_results
    from prism.reports.tables import summary_tables

    page = write(results, output, overwrite=run.overwrite)
    results, rankings = apart_from_rankings(results)
    for path in rankings:
        Console().print(ranking_table(Ranking.load(path)))
    loaded = load_results(results) if results else []
    found = [item.result for item in loaded]
    for table, cautions in summary_tables(found):
        Console().print(table)
        for caution in cautions:
            say(caution)
    wrote(page.resolve(), "open it in a browser")
    if loaded:
        say(f"Next: {next_command(loaded, groups(build_rows(found))[0])}")


@command(ExportConfig, without=("resume", "device", "engine", "address"))
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
        say(f"Next: fill in the licence in {made.path / 'README.md'}.")
        say(f"Then: {shlex.join(('hf', 'upload', 'NAME', str(made.path), '--repo-type', 'dataset'))}")


@command()
def info(path: Path, /, *, json: Flag = False) -> None:
    """Say what a store, condensed set, result or ranking is, in a few lines.

    Example: prism info runs/set.safetensors

    Parameters
    ----------
    path
        A store's folder, a condensed set, a result or a ranking.
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
    """Print lines for the user; what would move the terminal's cursor or colours is spelled out."""
    print("\n".join(map(printable, text.split("\n"))), flush=True)


def resumes(run: Running, output: Path, *kept: Path) -> None:
    """Say that a run which is to be resumed begins anew, where none of the files is there that it would need."""
    if run.resume and not any(path.exists() for path in kept):
        say(f"Nothing of an earlier run of {output} is there to resume: starting from the beginning.")


def wrote(output: Path, contents: str = "") -> None:
    """Say what a verb wrote."""
    say(f"Wrote {output}: {contents}." if contents else f"Wrote {output}.")


def next_is(*words: object, run: Running = LOCAL) -> None:
    """Say the command to go on with, to be pasted; with the recipes of the run that have options of it, too."""
    shared = [recipe for recipe in run.recipe or () if words[0] in read_recipe(recipe)]
    recipes = [word for recipe in shared for word in ("--recipe", recipe)]
    say(f"Next: {shlex.join(map(str, ('prism', *words, *recipes)))}")


def evaluate_next(made: "CondensedSet", output: Path, store: Path, run: Running) -> None:
    """Say how a set is evaluated, or how it is read where no command can."""
    from prism.artifacts.encodings import ENCODINGS

    if isinstance(encoding := made.encoding.apart, ENCODINGS):
        return next_is("evaluate", output, "--data", store, "-o", output.with_suffix(".json"), run=run)
    load = f"prism.CondensedSet.load({str(output)!r}, encodings=[{type(encoding).__name__}])"
    say(f"Read it in Python: {load}. No command imports an encoding.")


def complain(text: str) -> None:
    """Print one line on stderr."""
    print(f"prism: {printable(text)}", file=sys.stderr)


def run(command: Callable[[], Any]) -> int:
    """Run a command and turn what a user caused into one sentence and an exit code."""
    try:
        command()
    except PrismError as error:
        complain(str(error))
        return error.exit_code
    except CycloptsError as error:
        complain(_said_of(error))
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


def _said_of(error: CycloptsError) -> str:
    """The sentence on a command line that cannot be understood."""
    if isinstance(error, MissingArgumentError) and error.argument and not error.keyword:
        command = " ".join(["prism", *(error.command_chain or ())])
        return f"{command} needs {' or '.join(error.argument.names)}. See {command} --help."
    return " ".join(str(error).split())


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the `prism` command."""
    if arguments is None:
        keep_freed_memory()
        let_waiting_threads_sleep()
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(lambda: app(given, exit_on_error=False, print_error=False) if given else say(FIRST_SESSION)))
