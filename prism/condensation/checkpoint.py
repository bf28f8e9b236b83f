"""The checkpoint of an unfinished condensation: everything that its next iteration depends on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from prism.artifacts.kinds import SET, check_output_kind
from prism.errors import ArtifactError, ConfigError
from prism.machine.files import hidden_beside, write_atomically
from prism.machine.provenance import check_same_run
from prism.machine.text_io import canonical_json, count, parse_json

FORMAT = "prism-checkpoint"
VERSION = 1


def checkpoint_path(output: Path) -> Path:
    """Where the checkpoint of a run is kept: hidden, beside its output."""
    return hidden_beside(output, "checkpoint")


def shards_path(output: Path) -> Path:
    """Where the classes of a run on an executor are kept until all are done: hidden, beside its output."""
    return hidden_beside(output, "shards")


def run_path(output: Path) -> Path:
    """What the shards are made for: the first file of their folder, and the first to go when all is done."""
    return shards_path(output) / "run.json"


def check_free(output: Path, store: Path, *, on_engine: bool, resume: bool, overwrite: bool) -> None:
    """Refuse an output that is there, or that an unfinished run has begun.

    Args:
        output: the set's file.
        store: what is read.
        on_engine: whether the run leaves shards, not a checkpoint.
        resume: go on with an unfinished run, which must be one of the same kind.
        overwrite: replace whatever is there.

    Raises:
        ConfigError: an unfinished run is there, and is not to be gone on with, or cannot be.
        OutputError: as of `check_output_kind`.
    """
    checkpoint, shards = checkpoint_path(output), shards_path(output)
    own, other = (shards, checkpoint) if on_engine else (checkpoint, shards)
    again = "or start again with --overwrite."
    if other.exists() and not overwrite:
        how, so = ("without an engine", "without one") if on_engine else ("on an engine", "there")
        raise ConfigError(f"'{output}' was begun {how}. Continue it {so} with --resume, {again}")
    # A run that was killed between saving its set and dropping its checkpoint, or its shards, may finish again.
    check_output_kind(output, SET, overwrite or (resume and own.exists()), [store])
    if own.exists() and not (resume or overwrite):
        what = "shards" if on_engine else "checkpoint"
        raise ConfigError(f"'{output}' has the {what} of an unfinished run. Continue it with --resume, {again}")


@dataclass(frozen=True)
class Checkpoint:
    """A run between two iterations.

    Attributes:
        iteration: the next iteration to do.
        source: what identifies the run: configuration, versions, fingerprint of the store.
        telemetry_bytes: length of the telemetry file at this point.
        seconds: time spent so far.
        tensors: parameters, momentum and estimates.
    """

    iteration: int
    source: dict[str, Any]
    telemetry_bytes: int
    seconds: float
    tensors: dict[str, Tensor]

    def save(self, path: Path) -> None:
        """Write the checkpoint in place of the one before, or leave that one."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "iteration": self.iteration,
            "source": self.source,
            "telemetry_bytes": self.telemetry_bytes,
            "seconds": self.seconds,
        }
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        write_atomically(path, safetensors.torch.save(tensors, metadata={"prism": canonical_json(content)}))

    @classmethod
    def load(cls, path: Path, source: dict[str, Any]) -> "Checkpoint":
        """Read the checkpoint of the run that `source` identifies.

        Raises:
            ArtifactError: it is damaged, or belongs to a run with another configuration or store.
        """
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                content = parse_json((file.metadata() or {})["prism"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                raise ValueError(f"it is not of format '{FORMAT}', version {VERSION}")
            found = cls(
                count(content["iteration"]),
                dict(content["source"]),
                count(content["telemetry_bytes"]),
                float(content["seconds"]),
                tensors,
            )
        except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise damaged(path, error) from None
        check_same_run(f"checkpoint '{path}'", found.source, source, ArtifactError)
        return found


def damaged(path: Path, error: Exception) -> ArtifactError:
    """The refusal of a checkpoint that cannot be read or does not hold what its run needs."""
    return ArtifactError(f"checkpoint '{path}' is damaged: {error}. Start again with --overwrite.")
