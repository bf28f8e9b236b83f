"""Run of a verb: its output, device and progress, none of which is recorded as an option."""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from prism.config import AnyOptions, as_path, short_repr, with_options
from prism.errors import ConfigError, nearest
from prism.machine.progress import is_watched

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
    """One run of a verb; every field is a keyword argument of the verb, as in `condense(store, output="set")`.

    Attributes:
        output: the file or folder to write; None writes nothing.
        resume: go on where an interrupted run of the same options stopped, to the same bytes.
        overwrite: replace an output that exists.
        device: where networks run: `auto` takes a GPU if there is one, `cpu`, `cuda`, or `cuda:1`.
        executor: computes independent items in place of this process, on machines that see the same files.
        progress: show the progress on stderr; by default if stderr is shown by a terminal or a notebook.
    """

    output: str | Path | None = None
    resume: bool = False
    overwrite: bool = False
    device: str = "auto"
    executor: Executor | None = None
    progress: bool = field(default_factory=is_watched)

    @property
    def path(self) -> Path | None:
        return None if self.output is None else as_path(self.output)

    def check_workers(self, workers: Any) -> None:
        """Refuse a number of workers that is below 1, or given beside an executor."""
        if workers is not None and (self.executor or not isinstance(workers, int) or workers < 1):
            promise = "a whole number, at least 1, and left out with an executor, which has workers of its own"
            raise ConfigError(f"workers = {short_repr(workers)}, but it must be {promise}.")


def split_options(
    kind: type[AnyOptions], config: AnyOptions | None, run: Run | None, given: Mapping[str, Any]
) -> tuple[AnyOptions, Run]:
    """The options and the run of a verb, defaults for None, with the fields of either that it was `given`."""
    if config is not None and not isinstance(config, kind):
        raise ConfigError(f"{kind.section} takes its options as keyword arguments, not {short_repr(config)}.")
    of_run = {key: value for key, value in given.items() if key in FIELDS}
    options = {key: value for key, value in given.items() if key not in FIELDS}
    return with_options(config or kind(), options, FIELDS), run_of(kind.section, run, of_run)


def run_of(verb: str, run: Run | None, given: Mapping[str, Any]) -> Run:
    """The run of a verb with the given fields; a ConfigError for one that the verb has no use for."""
    for key in given.keys() - FIELDS:
        raise ConfigError(f"unknown key '{verb}.{key}'.{nearest(key, FIELDS)}")
    run, unused = replace(run or Run(), **given), Run()
    for name in NOT_TAKEN.get(verb, ()):
        if (value := getattr(run, name)) != getattr(unused, name):
            raise ConfigError(f"{name} = {short_repr(value)}, but {verb} has no use for it. Leave it out.")
    if not isinstance(run.executor, Executor | None):
        promise = "a concurrent.futures.Executor, as a Dask client has get_executor()"
        raise ConfigError(f"executor = {short_repr(run.executor)}, but it must be {promise}.")
    if run.resume and run.path is None:
        raise ConfigError("resume needs the output to go on with. Name it.")
    return run


FIELDS = [field.name for field in fields(Run)]
