"""The journal of a condensation: telemetry, checkpoints, and the finished set."""

import shutil
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.telemetry import QUANTILES, TelemetryWriter, telemetry_path
from prism.condensation.checkpoint import Checkpoint, check_free, checkpoint_path, damaged, shards_path
from prism.condensation.loop import Condensation, Step
from prism.condensation.rules import Conflict
from prism.errors import Interrupted
from prism.machine.files import discard
from prism.machine.provenance import peak_memory_bytes, provenance
from prism.machine.run import Run
from prism.machine.text_io import as_text


class Journal:
    """What a run leaves on disk while it runs: telemetry, checkpoints, and the set at the end.

    The run has claimed the output: no other one writes it meanwhile.

    Args:
        run: the condensation, which a checkpoint may move forward.
        output: the set's file.
        source: what identifies the run.
        checkpoint_seconds: time between two checkpoints.
        resume: continue from a checkpoint, if there is one.
        overwrite: ignore a checkpoint and replace an output.

    Attributes:
        seconds: time until the last iteration, those before a kill included.
    """

    def __init__(
        self,
        run: Condensation,
        output: Path,
        source: dict[str, Any],
        *,
        checkpoint_seconds: float,
        resume: bool,
        overwrite: bool,
    ) -> None:
        self.run, self.output, self.source = run, output, source
        self.checkpoint, self.checkpoint_seconds, self.seconds = checkpoint_path(output), checkpoint_seconds, 0.0
        check_free(output, run.store.path, on_engine=False, resume=resume, overwrite=overwrite)
        self.telemetry = TelemetryWriter(telemetry_path(output))
        try:
            kept = self._continue() if resume and self.checkpoint.exists() else 0
            self.telemetry.keep(kept)
        except BaseException:
            self.telemetry.close()
            raise
        if kept == 0:
            # A checkpoint that is not continued must not outlive the telemetry that it counts on.
            discard(self.checkpoint)
            shutil.rmtree(shards_path(output), ignore_errors=True)
            store = as_text(str(run.store.path))
            self.telemetry.write("start", config=source["config"], store=store, **provenance())
        self._saved = time.monotonic()
        self._started = self._saved - self.seconds

    @classmethod
    def of(
        cls, run: Condensation, how: Run, source: dict[str, Any], checkpoint_seconds: float
    ) -> "AbstractContextManager[Journal | None]":
        """The journal of a run as `how` says; None where it has no output."""
        if how.path is None:
            return nullcontext()
        kept = {"resume": how.resume, "overwrite": how.overwrite}
        return cls(run, how.path, source, checkpoint_seconds=checkpoint_seconds, **kept)

    def _continue(self) -> int:
        """Take up the checkpoint; return how much of the telemetry belongs to it, in bytes."""
        found = Checkpoint.load(self.checkpoint, self.source)
        try:
            self.run.restore(found)
        except (KeyError, ValueError) as error:
            raise damaged(self.checkpoint, error) from None
        self.seconds = found.seconds
        return found.telemetry_bytes

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self.telemetry.close()

    def keep_up(self, stop: bool) -> None:
        """Save a checkpoint if it is time for one, or if the run is to stop.

        Raises:
            Interrupted: it is to stop, and iterations are left.
        """
        if stop or time.monotonic() - self._saved >= self.checkpoint_seconds:
            self.save_checkpoint()
            self._saved = time.monotonic()
        if stop and self.run.iteration < self.run.num_iterations:
            raise Interrupted(
                f"stopped at iteration {self.run.iteration} of {self.run.num_iterations}; a checkpoint is saved. "
                "Run the same command with --resume to continue."
            )

    def record(self, step: Step) -> None:
        """Write what an iteration did, and when, to the telemetry file."""
        iteration = self.run.iteration - 1
        self.seconds = time.monotonic() - self._started
        record = {
            "iteration": iteration,
            "loss": step.loss,
            "between_class": None,
            "keyframes": step.keyframes,
            "lr": step.lr,
            "seconds": round(self.seconds, 3),
        }
        self.telemetry.write("step", **(record | step.recorded))
        if step.conflict is not None:
            self.record_insertion(iteration, step.conflict, step.inserted)

    def record_insertion(self, iteration: int, conflict: Conflict, inserted: list[list[int]]) -> None:
        """Write the inserted frames, and every hundredth of the run how the candidates' cosines are spread.

        Of a part of the classes the cosines themselves are written: quantiles cannot be joined.
        """
        every = max(1, self.run.config.iterations // 100)
        if iteration % every == 0 and (candidates := ~conflict.mask).any():
            spread = conflict.cosines[candidates].flatten().float().cpu()
            is_whole = len(self.run.classes) == len(self.run.store.classes)
            said = {"quantiles": quantiles(spread)} if is_whole else {"values": spread.tolist()}
            self.telemetry.write("cosines", iteration=iteration, **said)
        pairs = conflict.cosines[tuple(zip(*inserted, strict=True))].tolist() if inserted else []
        for (video, frame), pair in zip(inserted, pairs, strict=True):
            cosines = [round(cosine, 5) for cosine in pair]
            self.telemetry.write("insertion", iteration=iteration, video=video, frame=frame, cosines=cosines)

    def save_checkpoint(self) -> None:
        """Put everything on disk that the next iteration depends on."""
        self.run.store.check_unchanged()
        tensors = self.run.tensors()
        self.run.check_good(tensors)
        length = self.telemetry.sync()
        Checkpoint(self.run.iteration, self.source, length, self.seconds, tensors).save(self.checkpoint)

    def finish(self, condensed: CondensedSet) -> None:
        """Write the set under its final name, then drop the checkpoint."""
        counts = condensed.keyframe_counts.tolist()
        if likeness := condensed.source.get("unseen"):
            self.telemetry.write("unseen", iteration=self.run.iteration, **likeness)
        self.telemetry.write(
            "end", seconds=round(self.seconds, 3), peak_memory_bytes=peak_memory_bytes(), keyframes=counts
        )
        self.telemetry.sync()
        condensed.save(self.output)
        discard(self.checkpoint)


def quantiles(cosines: Tensor) -> list[float]:
    """The `QUANTILES` of cosines (n,), as the telemetry has them."""
    # PyTorch takes no more values.
    found = torch.quantile(cosines[: 2**24], torch.tensor(QUANTILES))
    return [round(quantile, 5) for quantile in found.tolist()]
