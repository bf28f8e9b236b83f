"""How a verb runs: what it writes, where it computes, and what it shows. None of it changes the result."""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prism.config import AnyOptions, as_path, nearest, short_repr, with_options
from prism.errors import ConfigError

OUTPUT = "the path of an output"
"""As `as_path` says it."""

NOT_TAKEN: dict[str, tuple[str, ...]] = {
    "motion": ("output", "resume", "device", "executor"),
    "ingest": ("output", "resume", "device"),
    "select": ("resume", "executor"),
    "export": ("output", "resume", "device", "executor"),
    "report": ("output", "resume", "device", "executor", "progress"),
    "reproduce": ("output", "resume", "overwrite"),
}
"""Fields of `Run` that a verb has no use for: it refuses them, and its command does not offer them."""


@dataclass(frozen=True)
class Run:
    """One run of a verb; every field may also be given to the verb itself, as in `condense(store, output="set")`.

    Attributes:
        output: the file or folder to write; None writes nothing.
        resume: go on where an interrupted run of the same options stopped, to the same bytes.
        overwrite: replace an output that exists.
        device: where networks run: `auto`, `cpu` or `cuda`; `auto` takes a GPU if there is one.
        executor: computes independent items in place of this process, on machines that see the same files.
        progress: show a progress bar, or a line a minute where stderr is no terminal.
    """

    output: str | Path | None = None
    resume: bool = False
    overwrite: bool = False
    device: str = "auto"
    executor: Executor | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        for name in ("resume", "overwrite", "progress"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} = {short_repr(getattr(self, name))}, but it must be True or False.")
        if not isinstance(self.executor, Executor | None):
            raise ConfigError(f"executor = {short_repr(self.executor)}, but it must be an Executor, or None.")
        if self.output is not None:
            as_path(self.output, OUTPUT)

    @property
    def path(self) -> Path | None:
        """The output as a path."""
        return None if self.output is None else Path(self.output)

    def check_workers(self, workers: int | None) -> None:
        """Refuse a number of workers that cannot be had.

        Raises:
            ConfigError: it is no whole number or below 1, or the run has an executor.
        """
        allowed = ""
        if workers is not None and self.executor is not None:
            allowed = "left out with an engine, which has workers of its own"
        elif workers is not None and type(workers) is not int:
            allowed = "of type int"
        elif workers is not None and workers < 1:
            allowed = "at least 1"
        if allowed:
            raise ConfigError(f"workers = {short_repr(workers)}, but it must be {allowed}.")

    def check(self, verb: str) -> None:
        """Refuse what a verb would not look at.

        Raises:
            ConfigError: a field that it has no use for, or `resume` without an output.
        """
        not_taken, defaults = NOT_TAKEN.get(verb, ()), Run()
        for name in not_taken:
            if (value := getattr(self, name)) != getattr(defaults, name):
                raise ConfigError(
                    f"{name} = {short_repr(value)}, but {verb} has no use for this field of a run. Leave it out."
                )
        if self.resume and self.output is None:
            raise ConfigError("resume needs the output to go on with. Name it.")


def split_options(
    kind: type[AnyOptions],
    config: AnyOptions | None,
    run: Run | None,
    given: Mapping[str, Any],
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> tuple[AnyOptions, Run]:
    """The options and the run of a verb, with what it was given in place of their fields.

    Args:
        kind: of its options.
        config: options of the verb; the defaults for None.
        run: how it runs; the defaults for None.
        given: keyword arguments of the verb: fields of either.
        renamed: for each option of its command that Python calls otherwise, the name there.

    Raises:
        ConfigError: `config` or `run` is something else, a key is neither, an option is out of range, or the verb
            has no use for a field of the run.
    """
    _check_kind("config", config, kind)
    for name in renamed.keys() & given.keys():
        raise ConfigError(f"unknown key '{kind.section}.{name}'. Did you mean '{renamed[name]}'?")
    of_run = {key: value for key, value in given.items() if key in FIELDS}
    options = {key: value for key, value in given.items() if key not in FIELDS}
    run = run_of(kind.section, run, of_run)
    return with_options(config or kind(), options, FIELDS), run


def run_of(verb: str, run: Run | None, given: Mapping[str, Any]) -> Run:
    """The run of a verb, with what it was given in place of the fields.

    Raises:
        ConfigError: like `split_options`.
    """
    _check_kind("run", run, Run)
    if unknown := next((key for key in given if key not in FIELDS), ""):
        raise ConfigError(f"unknown key '{verb}.{unknown}'.{nearest(unknown, FIELDS)}")
    run = replace(run or Run(), **given)
    run.check(verb)
    return run


def _check_kind(name: str, value: object, wanted: type) -> None:
    if value is not None and not isinstance(value, wanted):
        article = "an" if wanted.__name__[0] in "AEIOU" else "a"
        raise ConfigError(
            f"{name} = {short_repr(value)}, but it must be {article} {wanted.__name__}. Give options as keyword "
            "arguments."
        )


FIELDS = tuple(field.name for field in fields(Run))
"""Of a run."""
