"""The verb ingest: it decodes a labelled source of videos into a clip store, in parallel, and can be resumed."""

import errno
import hashlib
import json
import math
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import metadata
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import numpy as np

from prism.artifacts.store import ENTRIES, SPLITS, ClipSource, ClipStore, StoreHeader, clips_csv, ordered_classes
from prism.config import as_dict, as_path
from prism.errors import OutputError, SourceError
from prism.ingestion.decode import Outcome
from prism.ingestion.items import write_items
from prism.ingestion.listing import DataSet, Listing, VideoSource, files_of, why_skipped
from prism.ingestion.options import IngestConfig
from prism.ingestion.pool import Task, decode_all
from prism.ingestion.splits import list_videos, recordings_beside_paths, split_videos
from prism.machine import files
from prism.machine.executors import stoppable
from prism.machine.progress import note, progress_bar
from prism.machine.run import Run, split_options
from prism.machine.text_io import canonical_json, csv_text, parse_json, read_text, typed

Done = list[tuple[VideoSource, Outcome]]

SYNC_SECONDS = 3.0


def ingest(
    source: str | Path | DataSet,
    output: str | Path,
    config: IngestConfig | None = None,
    run: Run | None = None,
    *,
    workers: int | None = None,
    **options: Any,
) -> ClipStore:
    """Decode a labelled folder of videos, or a data set object, into a clip store, and open it.

    A killed run continues when it is started again with the same source, output and settings. A video that cannot
    be used is skipped and listed in the store's `skipped.csv`. No clip holds a frame that is known to be damaged;
    `damaged.csv` lists the videos with damage outside of their clips.

    Args:
        source: a folder (`<class>/<video>`, `{train,val,test}/<class>/<video>`, or an official layout; a video is
            a file or a folder of frames); a CSV file with the columns path, label, and optionally split and group;
            or a data set object, or a dictionary of such objects by split name. Items of an object are pairs
            (frames, label), or dictionaries with `video`, `label` and optionally `group`, the recording. Frames
            are (T, H, W, 3) or (T, 3, H, W), integers in 0..255 or floats in 0..1; labels are names, or indices
            of names in the object's `features` or `classes`. A killed run with an object starts anew.
        output: the store's folder; it appears when it is complete.
        config: length, stride and size of clips, windows and splits.
        run: overwriting, progress and executor; an item of the executor holds `pool.SHARD_VIDEOS` videos.
        workers: decoding processes; by default one for each processor. The store does not depend on it.
        options: fields of `config` and of `prism.machine.run.Run`.

    Raises:
        ConfigError: an option is wrong.
        ClipError: an item of a data set object has no label, or frames of another shape or type.
        SourceError: the source is missing, wrong or changed, or a class has no usable training video.
        OutputError: the output exists, cannot be written, or the disk is full.
        Interrupted, EngineError: the run was stopped, or the executor failed; finished videos are kept.
    """
    config, run = split_options(IngestConfig, config, run, options)
    output = Path(os.path.abspath(as_path(output)))
    run.check_workers(workers)
    with files.lock(output):
        files.check_output_folder(output, run.overwrite, "store.json", "a clip store", ENTRIES)
        with ExitStack() as stack:
            if not isinstance(source, str | os.PathLike):
                if config.layout != "auto":
                    raise config.refusal("layout", "auto for a data set object")
                # A fixed name, so that the folder replaces the one of a killed run.
                folder = stack.enter_context(files.new_folder(output, ".{}.items"))
                source = write_items(source, folder, run.progress)
            plan = make_plan(Path(source), config)
            # The processors that this process may use, if the system reports them; else all of the machine.
            usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            stack.enter_context(stoppable("stopped. Run the same command again to go on."))
            _build(plan, output, run.executor or workers or usable, run.progress)
    return ClipStore.open(output, verify=False)


@dataclass(frozen=True)
class Plan:
    """Videos to decode, in the order of the store, and the settings on which its clips depend."""

    config: IngestConfig
    listing: Listing
    videos: Sequence[VideoSource]
    flip: bool

    @cached_property
    def stamps(self) -> list[str]:
        """Digest of the names, sizes and times of each video's files when the run began."""
        return [_stamp(video.path) for video in self.videos]

    @cached_property
    def offsets(self) -> list[int]:
        """First byte of each video's slots in the slots file; the last item is the size of the file."""
        clip_bytes = self.config.num_frames * 3 * self.config.size**2
        slots = {"train": self.config.clips_per_video, "val": 1, "test": 1 + self.config.random_test_windows}
        return [clips * clip_bytes for clips in accumulate((slots[v.split] for v in self.videos), initial=0)]

    def to_json(self) -> str:
        """The settings, the decoders, and a digest of the name, class, split, size and time of every video."""
        digest = hashlib.sha256()
        for video, stamp in zip(self.videos, self.stamps, strict=True):
            digest.update(canonical_json([video.relative, video.label, video.split, stamp]).encode())
        content = {
            "settings": as_dict(self.config),
            "flip": self.flip,
            # The packages that decide the pixels of a clip.
            "versions": {name: metadata.version(name) for name in ("prism-condense", "av", "pillow")},
            "videos": digest.hexdigest(),
        }
        return canonical_json(content, indent=1)


class WorkingFolder:
    """The folder of an unfinished store; an existing folder of the same plan is continued, another is emptied.

        .STORE.partial/plan.json        the plan: settings, and a digest of every source file's size and time
        .STORE.partial/journal.jsonl    a line for each video that is done, written after its frames are on disk
        .STORE.partial/slots-PLAN.u8    the clips of all videos in their final order, with gaps for failed videos

    A continued run begins with the first video that is not in the journal. At the end the files of the store
    replace these three, and the folder gets the name of the store.

    Attributes:
        outcomes: outcomes of the videos that are done, by position.
        restarted: whether the folder held the unfinished store of another plan.
    """

    def __init__(self, path: Path, plan: str, offsets: Sequence[int]) -> None:
        self.path, self.offsets, self.outcomes = path, offsets, dict[int, Outcome]()
        # A decoding process that outlived a killed run must not write into the slots of another plan.
        self.slots = path / f"slots-{hashlib.sha256(plan.encode()).hexdigest()[:16]}.u8"
        self.plan, self.journal = path / "plan.json", path / "journal.jsonl"
        self._waiting, self._synced = list[str](), time.monotonic()
        with files.writing(path):
            path.mkdir(exist_ok=True)
        is_same = self.plan.is_file() and self.plan.read_bytes() == plan.encode()
        self.restarted = self.plan.exists() and not is_same
        if is_same and self.slots.exists() and self.journal.exists():
            self._read_journal()
        else:
            self._begin(plan.encode())

    def _begin(self, plan: bytes) -> None:
        names = {entry.name for entry in self.path.iterdir()} - {self.plan.name, self.journal.name, *ENTRIES}
        if any(not re.fullmatch(r"slots-\w+\.u8", name) for name in names):
            raise OutputError(f"'{self.path}' is in the way, and no unfinished store. Move it away.")
        try:
            with files.writing(self.path, self.offsets[-1]):
                # The plan is removed first and written last: if it exists, the other files do.
                self.plan.unlink(missing_ok=True)
                for entry in self.path.iterdir():
                    entry.unlink()
                self.journal.touch()
                with self.slots.open("wb") as empty:
                    empty.truncate(self.offsets[-1])
                # Fail before decoding, not after hours of it, if the disk is too small.
                if shutil.disk_usage(self.path).free < self.offsets[-1]:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                files.write_synced(self.plan, plan)
                files.sync(self.path)
        except OutputError:
            self.remove()
            raise

    def _read_journal(self) -> None:
        """Read the outcomes of an earlier run; drop the first invalid or cut-off line and all lines after it."""
        whole = 0
        for line in self.journal.read_bytes().splitlines(keepends=True):
            try:
                entry = parse_json(line.decode())
                video, outcome = typed(int, entry["video"]), typed(Outcome, entry["outcome"])
            except (ValueError, KeyError, TypeError):
                break
            if not line.endswith(b"\n") or video >= len(self.offsets) - 1:
                break
            self.outcomes[video] = outcome
            whole += len(line)
        with files.writing(self.journal):
            os.truncate(self.journal, whole)

    def record(self, video: int, outcome: Outcome) -> None:
        """Record that a video is done; `sync` if `SYNC_SECONDS` have passed since the last time."""
        self.outcomes[video] = outcome
        self._waiting.append(json.dumps({"video": video, "outcome": asdict(outcome)}) + "\n")
        if time.monotonic() - self._synced >= SYNC_SECONDS:
            self.sync()

    def sync(self) -> None:
        """Flush finished videos to disk: first their frames, then their lines in the journal."""
        with files.writing(self.path):
            files.sync(self.slots)
            with self.journal.open("a", encoding="utf-8") as file:
                file.writelines(self._waiting)
            files.sync(self.journal)
        self._waiting.clear()
        self._synced = time.monotonic()

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def make_plan(source: Path, config: IngestConfig) -> Plan:
    """The plan of a source: its videos with splits, in the order of the store, and whether a flip keeps labels."""
    listing = list_videos(source, config)
    videos, flip, file = split_videos(listing, config), config.flip == "on", listing.root / "prism.json"
    if config.flip == "auto":
        try:
            flip = not file.exists() or typed(bool, parse_json(read_text(file))["flip"])
        except (OSError, ValueError, LookupError, TypeError):
            raise SourceError(f'\'{file}\' must be {{"flip": true}} or {{"flip": false}}.') from None
    return Plan(config, listing, videos, flip)


def _stamp(path: Path) -> str:
    digest = hashlib.sha256()
    for file in files_of(path):
        digest.update(file.name.encode(errors="surrogateescape"))
        with suppress(OSError):
            found = file.stat()
            digest.update(f"/{found.st_size}/{found.st_mtime_ns}/".encode())
    return digest.hexdigest()


def _build(plan: Plan, output: Path, workers: int | Executor, progress: bool) -> None:
    """Decode the videos that an earlier run has not, then assemble the store and give it its final name."""
    for text in plan.listing.notes:
        note(text)
    folder = WorkingFolder(files.partial_path(output), plan.to_json(), plan.offsets)
    if folder.restarted:
        note("The source or the settings have changed: starting again.", enabled=progress)
    elif folder.outcomes:
        note(f"{len(folder.outcomes)} of {len(plan.videos)} videos are done already: going on.", enabled=progress)
    _decode(plan, folder, workers, progress)
    for video, stamp in zip(plan.videos, plan.stamps, strict=True):
        if _stamp(video.path) != stamp:
            change = f"video '{video.relative}' was changed or moved since the run began."
            raise SourceError(f"{change} Run the same command again; it starts again.")
    done = [(video, folder.outcomes[number]) for number, video in enumerate(plan.videos)]
    skipped = plan.listing.skipped | {video.relative: found.reason for video, found in done if found.reason}
    _check_classes(done, folder)
    for text in _cautions(plan, done, skipped):
        note(text)
    with files.writing(output, plan.offsets[-1]):
        _assemble(plan, folder, done, skipped)
        files.replace_folder(folder.path, output)


def _decode(plan: Plan, folder: WorkingFolder, workers: int | Executor, progress: bool) -> None:
    total, done, slots = len(plan.videos), len(folder.outcomes), str(folder.slots)
    # A decoding process needs no option of the layout, and cannot import every custom layout.
    config = replace(plan.config, layout="auto", annotations="", official_split=1, train_list="official")
    tasks = [
        Task(n, str(video.path.absolute()), video.relative, video.split, slots, plan.offsets[n], config)
        for n, video in enumerate(plan.videos)
        if n not in folder.outcomes
    ]
    bar = progress_bar("Decoding", total, "videos", enabled=progress, done=done)
    try:
        with bar as advance, closing(decode_all(tasks, workers)) as results:
            for number, outcome in results:
                folder.record(number, outcome)
                advance()
    finally:
        folder.sync()


def _check_classes(done: Done, folder: WorkingFolder) -> None:
    """Raise a SourceError for a class without usable training videos; note one without any in another split."""
    adjectives = {"train": "training", "val": "validation", "test": "test"}
    for (split, label), some in groupby(done, key=lambda one: (one[0].split, one[0].label)):
        videos = list(some)
        if any(outcome.windows for _, outcome in videos):
            continue
        sentence = f"class '{label}' has no usable {adjectives[split]} video: all {len(videos)} were skipped"
        sentence += f", the first ('{videos[0][0].relative}') because {videos[0][1].reason}"
        if split == "train":
            folder.remove()
            raise SourceError(sentence)
        note(f"Caution: {sentence} Splits are not cut again: mend or remove those videos and ingest again.")


def _cautions(plan: Plan, done: Done, skipped: dict[str, str]) -> Iterator[str]:
    used = {video.relative: outcome for video, outcome in done if outcome.windows}
    num_frames = plan.config.num_frames
    if short := [name for name, outcome in used.items() if outcome.video_frames < num_frames]:
        said = f"{len(short):,} of {len(used):,} used videos have fewer than {num_frames} frames, such as"
        remedy = "Their clips repeat the last frame. A smaller --num-frames avoids it."
        yield f"Caution: {said} '{short[0]}'. {remedy}"
    if skipped:
        total = len(done) + len(plan.listing.skipped)
        yield f"Skipped {len(skipped):,} of {total:,} videos, see skipped.csv: {why_skipped(skipped)}"
    if damaged := sorted(name for name, outcome in used.items() if outcome.damage):
        said = f"{len(damaged):,} of {len(used):,} used videos are cut short or damaged outside of their"
        first = f"such as '{damaged[0]}': {used[damaged[0]].damage}"
        yield f"{said} clips, see damaged.csv, {first} --damaged skip leaves them out."
    if sought := sum(outcome.is_sought for outcome in used.values()):
        what = "videos are long: only the parts that their clips need were decoded and checked for damage"
        yield f"{sought:,} of {len(done):,} {what}. --damaged skip checks whole videos."


def mean_and_std(counts: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel in [0, 1], from the counts (3, 256) of its values 0..255."""
    sums = (counts @ np.arange(256)[:, None] ** range(3)).tolist()
    # A constant channel gets a deviation of one grey level, by which networks can divide.
    stds = ((math.sqrt(n * squares - total * total) / n or 1.0) / 255 for n, total, squares in sums)
    return tuple(total / n / 255 for n, total, _ in sums), tuple(stds)


def _clips_in_order(plan: Plan, done: Done) -> list[tuple[int, ClipSource]]:
    """The clips of a store in its order, each with its first byte in the slots file."""
    clips, clip_bytes = list[tuple[int, ClipSource]](), 3 * plan.config.num_frames * plan.config.size**2
    names = recordings_beside_paths([video for video, _ in done], plan.config.group_pattern)
    for (video, outcome), name, offset in zip(done, names, plan.offsets, strict=False):
        for k, window in enumerate(outcome.windows):
            split = "test-random" if video.split == "test" and k > 0 else video.split
            where = window.start, window.stride, outcome.video_frames
            clips.append((offset + k * clip_bytes, ClipSource(split, video.label, video.relative, *where, name)))
    # The sort is stable and the videos are in order: only random windows of test videos move, to the end.
    return sorted(clips, key=lambda clip: SPLITS.index(clip[1].split))


def _assemble(plan: Plan, folder: WorkingFolder, done: Done, skipped: dict[str, str]) -> None:
    """Write the files of the store into the working folder, and remove the files of the run.

    The slots file becomes `frames.u8` if it holds all clips in order without gaps; else its clips are copied.
    """
    config, shape = plan.config, (plan.config.num_frames, 3, plan.config.size, plan.config.size)
    clips, clip_bytes, frames_path = _clips_in_order(plan, done), math.prod(shape), folder.path / "frames.u8"
    sources, digest, counts = [source for _, source in clips], hashlib.sha256(), np.zeros((3, 256), np.int64)
    is_whole = [start for start, _ in clips] == list(range(0, plan.offsets[-1], clip_bytes))
    with folder.slots.open("rb") as slots, nullcontext() if is_whole else frames_path.open("wb") as frames:
        for start, source in clips:
            slots.seek(start)
            data = slots.read(clip_bytes)
            digest.update(data)
            if source.split == "train":
                clip = np.frombuffer(data, np.uint8).reshape(shape)
                counts += [np.bincount(clip[:, channel].ravel(), minlength=256) for channel in range(3)]
            if frames:
                frames.write(data)
    (mean, std), index = mean_and_std(counts), clips_csv(sources).encode()
    header = StoreHeader(
        num_frames=config.num_frames,
        size=(config.size, config.size),
        classes=tuple(ordered_classes(source.label for source in sources)),
        splits=dict.fromkeys(("train", "val", "test"), 0) | Counter(source.split for source in sources),
        num_skipped=len(skipped),
        flip=plan.flip,
        mean=mean,
        std=std,
        settings=as_dict(config),
        sha256={"frames.u8": digest.hexdigest(), "clips.csv": hashlib.sha256(index).hexdigest()},
    )
    tables = {"clips.csv": index, "skipped.csv": csv_text(("path", "reason"), sorted(skipped.items())).encode()}
    if damaged := sorted((video.relative, outcome.damage) for video, outcome in done if outcome.damage):
        tables["damaged.csv"] = csv_text(("path", "damage"), damaged).encode()
    for name, data in (tables | {"store.json": header.to_json().encode()}).items():
        files.write_synced(folder.path / name, data)
    if is_whole:
        os.replace(folder.slots, frames_path)
    else:
        files.sync(frames_path)
        folder.slots.unlink()
    folder.journal.unlink()
    folder.plan.unlink()
