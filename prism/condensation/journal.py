"""The journal of a condensation: progress, telemetry, checkpoints, and the finished set."""

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.telemetry import QUANTILES, TelemetryWriter, telemetry_path
from prism.condensation.checkpoint import Checkpoint, checkpoint_path, damaged, shards_path
from prism.condensation.loop import Condensation, Step
from prism.condensation.rules import Conflict
from prism.condensation.unseen import EVERY, Unseen
from prism.errors import ConfigError, Interrupted
from prism.machine.files import check_output_file, discard
from prism.machine.progress import progress_bar
from prism.machine.provenance import peak_memory_bytes, provenance
from prism.machine.signals import stop_signal
from prism.machine.texts import as_text


class Journal:
    """What a run leaves on disk while it runs: telemetry, checkpoints, and the set at the end.

    The run has claimed the output: no other one writes it meanwhile.

    Args:
        run: the condensation, which a checkpoint may move forward.
        output: the set's file.
        source: what identifies the run.
        resume: continue from a checkpoint, if there is one.
        overwrite: ignore a checkpoint and replace an output.
    """

    def __init__(
        self, run: Condensation, output: Path, source: dict[str, Any], *, resume: bool, overwrite: bool
    ) -> None:
        self.run, self.output, self.source = run, output, source
        self.checkpoint, self.seconds = checkpoint_path(output), 0.0
        self._check_output(resume, overwrite)
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

    def _check_output(self, resume: bool, overwrite: bool) -> None:
        if shards_path(self.output).exists() and not overwrite:
            raise ConfigError(
                f"'{self.output}' was begun on an engine. Continue it there with --resume, or start again with "
                "--overwrite."
            )
        unfinished = self.checkpoint.exists()
        # A run that was killed between saving its set and dropping its checkpoint may finish again.
        check_output_file(self.output, overwrite or (resume and unfinished), [self.run.store.path])
        if unfinished and not (resume or overwrite):
            raise ConfigError(
                f"'{self.output}' has the checkpoint of an unfinished run. Continue it with --resume, or start "
                "again with --overwrite."
            )

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

    def iterate(
        self, checkpoint_seconds: float, progress: bool, prepare: Callable[[], Unseen | None]
    ) -> Unseen | None:
        """Do the remaining iterations, recording each and saving a checkpoint now and then.

        Args:
            checkpoint_seconds: time between two checkpoints.
            progress: show a bar on a terminal.
            prepare: what is done before the first of them, on the same clock: it returns what judges the videos
                every so often, or None for a part of the classes.

        Returns:
            What `prepare` returned.
        """
        started, before = time.monotonic(), self.seconds
        unseen = prepare()
        total = self.run.num_iterations
        bar = progress_bar("Condensing", total, "it", enabled=progress, done=self.run.iteration)
        with stop_signal() as stopped, bar as advance:
            saved, shown = time.monotonic(), dict[str, str]()
            while self.run.iteration < total:
                if unseen is not None and self.run.iteration % EVERY == 0:
                    likeness = unseen.measure(self.run.videos.render(self.run.iteration))
                    self.telemetry.write("unseen", iteration=self.run.iteration, **asdict(likeness))
                    shown = {"alignment": f"{likeness.alignment:.2f}", "nearest": f"{likeness.nearest:.0%}"}
                step = self.run.step()
                now = time.monotonic()
                self.seconds = before + now - started
                self.record(step)
                advance(1, **(shown or {"loss": f"{step.loss:.3g}"}), keyframes=f"{step.keyframes:.1f}")
                if stopped.signal or now - saved >= checkpoint_seconds:
                    self.save_checkpoint()
                    saved = now
                if stopped.signal and self.run.iteration < total:
                    raise Interrupted(
                        f"stopped at iteration {self.run.iteration} of {total}; a checkpoint is saved. "
                        "Run the same command with --resume to continue."
                    )
        return unseen

    def record(self, step: Step) -> None:
        """Write what an iteration did to the telemetry file."""
        iteration = self.run.iteration - 1
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
        """Write the inserted frames, and every hundredth of the run how the candidates' cosines are spread."""
        every = max(1, self.run.config.iterations // 100)
        if iteration % every == 0 and (candidates := ~conflict.mask).any():
            spread = conflict.cosines[candidates].flatten().float().cpu()
            quantiles = torch.quantile(spread[: 2**24], torch.tensor(QUANTILES)).tolist()
            self.telemetry.write("cosines", iteration=iteration, quantiles=[round(q, 5) for q in quantiles])
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
