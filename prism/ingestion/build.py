"""The verb ingest: decodes a labelled folder or list of videos into a clip store, in parallel and resumable."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prism.artifacts.store import ENTRIES, ClipStore
from prism.config import as_dict, as_path
from prism.errors import Interrupted, SourceError
from prism.ingestion.listing import DataSet, Listing, VideoSource, frame_files, why_skipped
from prism.ingestion.options import IngestConfig
from prism.ingestion.pool import Task, decode_all, decode_shard
from prism.ingestion.splits import list_videos, split_videos
from prism.ingestion.working import WorkingFolder, discard_named, slot_offsets, working_folder
from prism.machine.executors import completed
from prism.machine.files import (
    check_output,
    check_output_folder,
    discard_older,
    lock,
    partial_path,
    replace_folder,
    writing,
)
from prism.machine.progress import Advance, note, progress_bar
from prism.machine.run import OUTPUT, Run, split_options
from prism.machine.text_io import canonical_json, parse_json, read_text
from prism.machine.threads import stop_signal, stoppable

PLAN_VERSION = 4
SHARD_VIDEOS = 16
"""Videos that an executor decodes in one item."""


def ingest(
    source: str | Path | DataSet,
    output: str | Path,
    config: IngestConfig | None = None,
    run: Run | None = None,
    *,
    workers: int | None = None,
    **options: Any,
) -> ClipStore:
    """Decode a labelled folder of videos, or a data set object, into a clip store.

    A run that was killed goes on where it was when it is started again with the same source, output and
    settings. A video that cannot be used is skipped, and no clip holds a frame that is known to be damaged:
    `skipped.csv` and `damaged.csv` in the store list such videos.

    Args:
        source: a folder (`<class>/<video>`, or `{train,val,test}/<class>/<video>`; a video is a file or a
            folder of frames), or a CSV file with the columns path, label, and perhaps split and group; with an
            official layout, the folder of the data set. Or an object that gives items: pairs of frames and label,
            or tables with `video`, `label` and perhaps `group`, the recording; or for each split by its name such
            an object. Frames are (T, H, W, 3) or (T, 3, H, W), whole numbers of 0..255 or floats of 0..1; labels
            are names, or numbers that the object may name (`features` of Hugging Face, `classes` of torchvision).
            All is written beside the output until it is decoded. Such a run starts again after a kill.
        output: the store's folder; it appears when it is complete.
        config: length, stride and size of clips, windows and splits.
        run: how it runs. Its executor gets `SHARD_VIDEOS` videos in one item.
        workers: decoding processes; by default one for each processor. The store does not depend on it.
        options: fields of `config` and of `prism.machine.run.Run`.

    Returns:
        The open store.

    Raises:
        ConfigError: an option is wrong.
        ClipError: an item of a data set object has no label, or frames of another shape or type.
        SourceError: the source is missing, wrong or changed, or a class has no usable training video.
        OutputError: the output exists, cannot be written, or the disk is full.
        Interrupted, EngineError: what is done stays for the next run.
    """
    config, run = split_options(IngestConfig, config, run, options)
    output = Path(os.path.abspath(as_path(output, OUTPUT)))
    run.check_workers(workers)
    # A folder that cannot be written is named as such before it is claimed.
    check_output(output, overwrite=True)
    with lock(output):
        # A run that was killed after its store had got its name has left these.
        discard_older(output)
        discard_named(output)
        check_output_folder(output, run.overwrite, "store.json", "a clip store", ENTRIES)
        with ExitStack() as stack:
            if not isinstance(source, str | os.PathLike):
                source = _written(source, output, config, run, stack)
            plan = make_plan(Path(source), config)
            # The processors that this process may use, where the system tells; else all that the machine has.
            usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            stack.enter_context(stoppable("stopped. Run the same command again to go on."))
            _build(plan, output, run.executor or workers or usable, run.progress)
    return ClipStore.open(output, verify=False)


def _written(items: DataSet, output: Path, config: IngestConfig, run: Run, stack: ExitStack) -> Path:
    """A list of a data set object's items, which are written beside the output and go with the stack."""
    from prism.ingestion.items import write_items

    if config.layout != "auto":
        raise config.refusal("layout", "auto for a data set object")
    with writing(output):
        folder = TemporaryDirectory(prefix=f".{output.name}.items-", dir=output.parent)
    return write_items(items, Path(stack.enter_context(folder)), run.progress)


@dataclass(frozen=True)
class Plan:
    """What is to be decoded into which bytes, settled before the first frame is.

    Attributes:
        config: the options.
        listing: the videos that the layout found.
        videos: the same with their splits, in the order of the store.
        flip: whether a horizontal flip keeps the labels.
    """

    config: IngestConfig
    listing: Listing
    videos: Sequence[VideoSource]
    flip: bool

    @cached_property
    def stamps(self) -> list[str]:
        """For every video a digest of its files' names, sizes and times when the run began."""
        return [_stamp(video.path) for video in self.videos]

    def check_unchanged(self) -> None:
        """Refuse to make a store of videos that changed while they were decoded."""
        for video, stamp in zip(self.videos, self.stamps, strict=True):
            if _stamp(video.path) != stamp:
                change = f"video '{video.relative}' was changed or moved since the run began."
                raise SourceError(f"{change} Run the same command again; it starts again.")

    @cached_property
    def offsets(self) -> list[int]:
        return slot_offsets(self.videos, self.config)

    def to_json(self) -> str:
        """The settings, the decoders, and a digest of the name, class, split, size and time of every video."""
        digest = hashlib.sha256()
        for video, stamp in zip(self.videos, self.stamps, strict=True):
            digest.update(canonical_json([video.relative, video.label, video.split, stamp]).encode())
        content = {
            "version": PLAN_VERSION,
            "settings": as_dict(self.config),
            "flip": self.flip,
            # They decide the pixels of a clip.
            "versions": {name: metadata.version(name) for name in ("prism-condense", "av", "pillow")},
            "videos": digest.hexdigest(),
        }
        return canonical_json(content, indent=1)

    def task(self, number: int, slots: Path) -> Task:
        """The task to decode a video into its slots in a file."""
        return Task.of(self.videos[number], self.decoding, slots, self.offsets[number])

    @cached_property
    def decoding(self) -> IngestConfig:
        """The options without those of the layout, which may be a part that no decoding process knows."""
        return replace(self.config, layout="auto", annotations="", official_split=1, train_list="official")


def make_plan(source: Path, config: IngestConfig) -> Plan:
    """Find the videos, give each its split, and put them in the order of the store."""
    listing = list_videos(source, config)
    videos = split_videos(listing, config)
    flip = read_flip(listing.root) if config.flip == "auto" else config.flip == "on"
    return Plan(config, listing, videos, flip)


def read_flip(root: Path) -> bool:
    """Whether a horizontal flip keeps the labels, as the `prism.json` of a source says; true without one.

    The file may also say what it was `made_by`, and its `entries`.
    """
    file = root / "prism.json"
    if not file.exists():
        return True
    try:
        content = parse_json(read_text(file))
    except (OSError, ValueError) as error:
        raise SourceError(f"'{file}' cannot be read: {error}.") from None
    keys = set(content) - {"entries", "made_by"} if isinstance(content, dict) else set()
    if keys != {"flip"} or type(content["flip"]) is not bool:
        raise SourceError(f'\'{file}\' must be {{"flip": true}} or {{"flip": false}}, got {str(content)[:80]}.')
    return content["flip"]


def _stamp(path: Path) -> str:
    """A digest of name, size and time of change of a video's files."""
    digest = hashlib.sha256()
    for file in frame_files(path) if path.is_dir() else [path]:
        try:
            found = file.stat()
            size, time = found.st_size, found.st_mtime_ns
        except OSError:
            size, time = -1, 0
        digest.update(canonical_json([file.name, size, time]).encode())
    return digest.hexdigest()


def _build(plan: Plan, output: Path, workers: int | Executor, progress: bool) -> None:
    """Decode what an earlier run has not, then put the store together under its final name."""
    from prism.ingestion.assemble import assemble

    for text in plan.listing.notes:
        note(text)
    folder = working_folder(partial_path(output), plan.to_json(), plan.offsets)
    if folder.restarted:
        note("The source or the settings have changed: starting again.", enabled=progress)
    elif folder.outcomes:
        done = len(folder.outcomes)
        note(f"{done} of {len(plan.videos)} videos are done already: going on.", enabled=progress)
    if not folder.is_complete:
        _decode(plan, folder, workers, progress)
        plan.check_unchanged()
        _check_classes(plan, folder)
        for text in _cautions(plan, folder):
            note(text)
        with writing(output, plan.offsets[-1]):
            assemble(folder, list(plan.videos), plan.listing.skipped, plan.config, plan.flip)
            folder.slots.unlink()
            folder.journal.unlink()
    with writing(output):
        replace_folder(folder.finished, output)
    folder.remove()


def _decode(plan: Plan, folder: WorkingFolder, workers: int | Executor, progress: bool) -> None:
    total, left = len(plan.videos), [n for n in range(len(plan.videos)) if n not in folder.outcomes]
    try:
        with progress_bar("Decoding", total, "videos", enabled=progress, done=total - len(left)) as advance:
            if not isinstance(workers, int):
                return _decode_on(workers, plan, folder, left, advance)
            results = decode_all(partial(plan.task, slots=folder.slots), left, workers)
            with stop_signal() as stopped, closing(results):
                for result in results:
                    if result is not None:
                        folder.record(*result)
                        advance()
                    if stopped.signal:
                        done = f"{len(folder.outcomes)} of {total} videos"
                        raise Interrupted(f"stopped after {done}. Run the same command again to go on.")
    finally:
        folder.sync()


def _decode_on(executor: Executor, plan: Plan, folder: WorkingFolder, left: list[int], advance: Advance) -> None:
    """Have videos decoded where the executor runs, into the same slots: a worker that was given up writes what the
    next one does."""
    tasks = [(number, plan.task(number, folder.slots)) for number in left]
    shards = [tuple(tasks[k : k + SHARD_VIDEOS]) for k in range(0, len(tasks), SHARD_VIDEOS)]
    for _, outcomes in completed(executor, decode_shard, shards):
        for number, outcome in outcomes:
            folder.record(number, outcome)
            advance()


def _check_classes(plan: Plan, folder: WorkingFolder) -> None:
    """Refuse a store in which a class has nothing to train on; name a class that has nothing to be tested on."""
    adjectives = {"train": "training", "val": "validation", "test": "test"}
    of_class: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, video in enumerate(plan.videos):
        of_class[video.split, video.label].append(number)
    for (split, label), numbers in of_class.items():
        if any(folder.outcomes[number].windows for number in numbers):
            continue
        sentence = (
            f"class '{label}' has no usable {adjectives[split]} video: all {len(numbers)} were skipped, the first "
            f"('{plan.videos[numbers[0]].relative}') because {folder.outcomes[numbers[0]].reason}"
        )
        if split == "train":
            folder.remove()
            raise SourceError(sentence)
        note(
            f"Caution: {sentence} Splits are settled before videos are read, and are not cut again: mend or "
            "remove those videos and ingest again."
        )


def _cautions(plan: Plan, folder: WorkingFolder) -> Iterator[str]:
    """Sentences on the videos that are short, skipped or damaged."""
    outcomes = {video.relative: folder.outcomes[number] for number, video in enumerate(plan.videos)}
    used = {name: outcome for name, outcome in outcomes.items() if outcome.windows}
    num_frames = plan.config.num_frames
    if short := [name for name, outcome in used.items() if outcome.video_frames < num_frames]:
        yield (
            f"Caution: {len(short):,} of {len(used):,} videos have fewer than {num_frames} frames, such as "
            f"'{short[0]}'. Their clips repeat the last frame. A smaller --num-frames avoids it."
        )
    skipped = plan.listing.skipped | {name: outcome.reason for name, outcome in outcomes.items() if outcome.reason}
    if skipped:
        total = len(outcomes) + len(plan.listing.skipped)
        yield f"Skipped {len(skipped):,} of {total:,} videos, see skipped.csv: {why_skipped(skipped)}"
    if damaged := sorted(name for name, outcome in used.items() if outcome.damage):
        yield (
            f"Used {len(damaged):,} of {len(outcomes):,} videos that are cut short or damaged outside of their "
            f"clips, see damaged.csv, such as '{damaged[0]}': "
            f"{used[damaged[0]].damage} --damaged skip leaves them out."
        )
