"""A condensation on disk while it runs: telemetry, checkpoints, and the finished set.

A checkpoint holds all that the next iteration depends on: a killed run goes on from there to the same bytes.
"""

import shutil
import time
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.telemetry import TelemetryWriter, telemetry_path
from prism.condensation.loop import Condensation, Step
from prism.condensation.videos import suggest_lower_lr
from prism.errors import ArtifactError, ConfigError, DivergedError, Interrupted
from prism.machine.files import beside, check_output_file, discard, write_atomically
from prism.machine.provenance import check_same_run, peak_memory_bytes, provenance
from prism.machine.run import Run
from prism.machine.text_io import as_text, canonical_json, parse_json, typed

FORMAT, VERSION = "prism-checkpoint", 1
DAMAGES = safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError, OverflowError, RuntimeError
"""Errors of a checkpoint that cannot be read or does not hold what its run needs."""


def checkpoint_path(output: Path) -> Path:
    """The checkpoint of a run: hidden, beside its output."""
    return beside(output, ".{}.checkpoint")


def shards_path(output: Path) -> Path:
    """Folder of the shares of classes from an executor, until all are done: hidden, beside the output."""
    return beside(output, ".{}.shards")


def run_path(output: Path) -> Path:
    """File with the identity of the run in `shards_path`: written first, and removed first when all is done."""
    return shards_path(output) / "run.json"


def check_free(output: Path, reads: list[Path], run: Run, *, by_class: bool) -> None:
    """Refuse an output that exists, is read, or was begun by an unfinished run, whole or class by class."""
    whole, shares = checkpoint_path(output), shards_path(output)
    own, other = (shares, whole) if by_class else (whole, shares)
    is_begun = other.exists() or (own.exists() and not run.resume)
    # A run that was killed between saving its set and dropping its checkpoint, or its shards, may finish again.
    check_output_file(output, run.overwrite or (run.resume and own.exists()), reads)
    if is_begun and not run.overwrite:
        said = f"was begun {'without' if by_class else 'with'} an executor. Continue it so"
        said = said if other.exists() else "is not finished. Continue it"
        raise ConfigError(f"'{output}' {said} with --resume, or start again with --overwrite.")


def damaged(path: Path, error: Exception) -> ArtifactError:
    return ArtifactError(f"checkpoint '{path}' is damaged: {error}. Start again with --overwrite.")


class RunRecorder:
    """Writer of the telemetry, the checkpoints and the final set of a run, which holds the lock of its output.

    For a resumed run it restores the loop from the checkpoint; `seconds` include the time up to that checkpoint.
    """

    def __init__(
        self, loop: Condensation, output: Path, run: Run, source: dict[str, Any], checkpoint_seconds: float
    ) -> None:
        self.loop, self.output, self.source, self.store = loop, output, source, loop.networks.store
        self.checkpoint, self.checkpoint_seconds, self.seconds = checkpoint_path(output), checkpoint_seconds, 0.0
        if not (is_continued := run.resume and self.checkpoint.exists()):
            # Before the telemetry is emptied, whose bytes an old checkpoint counts.
            discard(self.checkpoint)
            shutil.rmtree(shards_path(output), ignore_errors=True)
        self.telemetry = TelemetryWriter(telemetry_path(output), self._continue() if is_continued else 0)
        if not is_continued:
            store = as_text(str(self.store.path))
            shown = {"config": source["config"], "classes": source.get("classes"), "store": store}
            self.telemetry.write("start", **shown, **provenance(run.device))
        self._saved = time.monotonic()
        self._started = self._saved - self.seconds

    def _continue(self) -> int:
        """Restore the checkpoint; return how many bytes of the telemetry belong to it."""
        try:
            with safetensors.safe_open(self.checkpoint, framework="pt") as file:
                content = parse_json((file.metadata() or {})["prism"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if (content["format"], content["version"]) != (FORMAT, VERSION):
                raise ValueError(f"it is not of format '{FORMAT}', version {VERSION}")
            check_same_run(f"checkpoint '{self.checkpoint}'", dict(content["source"]), self.source)
            self.seconds = float(content["seconds"])
            self.loop.restore(typed(int, content["iteration"]), tensors)
            return typed(int, content["telemetry_bytes"])
        except DAMAGES as error:
            raise damaged(self.checkpoint, error) from None

    def record(self, step: Step) -> None:
        """Write the records of an iteration, with the time."""
        self.seconds = time.monotonic() - self._started
        numbers = {"keyframes": step.keyframes, "lr": step.lr, "seconds": round(self.seconds, 3)}
        self.telemetry.write("step", iteration=step.iteration, **(step.numbers | numbers))
        if step.conflict is None or step.inserted is None:
            return
        pairs = step.conflict.cosines[step.inserted].tolist()
        for (video, frame), pair in zip(step.inserted.nonzero().tolist(), pairs, strict=True):
            cosines = [round(cosine, 5) for cosine in pair]
            self.telemetry.write("insertion", iteration=step.iteration, video=video, frame=frame, cosines=cosines)

    def checkpoint_if_due(self, stop: bool) -> None:
        """Save a checkpoint if it is time for one, or if the run is to stop, and then raise Interrupted."""
        if stop or time.monotonic() - self._saved >= self.checkpoint_seconds:
            self.save_checkpoint()
            self._saved = time.monotonic()
        if stop and self.loop.iteration < self.loop.num_iterations:
            said = f"stopped at iteration {self.loop.iteration} of {self.loop.num_iterations}"
            raise Interrupted(f"{said}; a checkpoint is saved. Run the same command with --resume to continue.")

    def save_checkpoint(self) -> None:
        """Save a checkpoint; a DivergedError where one of its values is not finite."""
        self.store.check_unchanged()
        tensors = self.loop.tensors()
        if spoiled := [name for name, values in tensors.items() if not values.isfinite().all()]:
            said = f"the values of {', '.join(spoiled)} are not finite after iteration {self.loop.iteration - 1}"
            advice = suggest_lower_lr(self.loop.videos.trainable)
            raise DivergedError(f"{said}. {advice} The last checkpoint, if any, stays.")
        content = {"format": FORMAT, "version": VERSION, "iteration": self.loop.iteration, "source": self.source}
        content |= {"telemetry_bytes": self.telemetry.sync(), "seconds": self.seconds}
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        write_atomically(self.checkpoint, safetensors.torch.save(tensors, {"prism": canonical_json(content)}))

    def finish(self, condensed: CondensedSet, data: bytes) -> None:
        """Save the bytes of the set under its final name and remove the checkpoint."""
        if score := condensed.source.get("unseen"):
            self.telemetry.write("unseen", iteration=self.loop.iteration, **score)
        ends = {"seconds": round(self.seconds, 3), "peak_memory_bytes": peak_memory_bytes()}
        self.telemetry.write("end", **ends, keyframes=condensed.keyframe_counts.tolist())
        self.telemetry.sync()
        write_atomically(self.output, data)
        discard(self.checkpoint)
