"""The commands that show what there is: `report`, `reproduce`, `info`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from prism.cli.commands import call, command
from prism.cli.options import LOCAL, Flag, Output, Paths, Running
from prism.cli.said import say, wrote
from prism.errors import ConfigError


@command()
def report(
    results: Annotated[list[Path], Parameter(negative="")], /, *, output: Output, run: Running = LOCAL
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

    from prism.reports.page import report as write
    from prism.reports.sources import load_results
    from prism.reports.tables import summary_tables

    page = write(results, output, overwrite=run.overwrite)
    for table, cautions in summary_tables(item.result for item in load_results(results)):
        Console().print(table)
        for caution in cautions:
            say(caution)
    wrote(page.resolve(), "open it in a browser")


@command()
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

    chosen = {"scale": scale, "seeds": seeds, "recipes": recipe, "vpc": vpc, "dry_run": dry_run}
    found = call(verb, name, data, output, run=run, **chosen)
    if not dry_run:
        Console().print(found.summary_table())
        wrote(found.file(".html").resolve(), "the table as a page")


@command()
def info(path: Path, /, *, json: Flag = False) -> None:
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
    from prism.machine.text_io import canonical_json

    facts = describe(path)
    say(
        # In ASCII: what a terminal lacks would be spelled out, and be no JSON any more.
        canonical_json(facts, indent=1, in_ascii=True)
        if json
        else "\n".join(f"{key:<14} {in_brief(value)}" for key, value in facts.items())
    )
