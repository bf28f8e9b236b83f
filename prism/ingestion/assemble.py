"""Making the files of a finished store from decoded clips: the same bytes in whatever order they were decoded."""

import contextlib
import hashlib
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from prism.artifacts.store import SPLITS, ClipSource, StoreHeader, clips_csv, ordered_classes
from prism.config import as_dict
from prism.ingestion.listing import VideoSource
from prism.ingestion.options import IngestConfig
from prism.ingestion.working import WorkingFolder
from prism.machine.files import sync_folder, write_synced
from prism.machine.text_io import csv_text


@dataclass
class PixelStatistics:
    """Counts of every value 0..255 of each channel: whole numbers, so the order of clips does not matter."""

    counts: np.ndarray = field(default_factory=lambda: np.zeros((3, 256), np.int64))

    def add(self, clip: np.ndarray) -> None:
        """Count a clip, (T, 3, H, W) uint8."""
        for channel in range(3):
            self.counts[channel] += np.bincount(clip[:, channel].ravel(), minlength=256)

    def mean_and_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and deviation of each channel in [0, 1]; a constant channel's deviation is one grey level."""
        means, stds = [], []
        for counts in self.counts.tolist():
            n, total, squares = (sum(value**k * count for value, count in enumerate(counts)) for k in range(3))
            std = math.sqrt(n * squares - total * total) / n
            means.append(total / n / 255)
            stds.append((std or 1.0) / 255)
        return tuple(means), tuple(stds)


def assemble(
    folder: WorkingFolder, videos: list[VideoSource], unlisted: Mapping[str, str], config: IngestConfig, flip: bool
) -> None:
    """Write the finished store to `folder.finished`, its `store.json` last.

    Args:
        folder: the working folder, with an outcome for every video.
        videos: all videos in the order of the store.
        unlisted: videos that were never tried, with the reasons.
        config, flip: the options, and whether a horizontal flip keeps the labels, which are recorded.
    """
    shutil.rmtree(folder.finished, ignore_errors=True)
    folder.finished.mkdir()
    shape = (config.num_frames, 3, config.size, config.size)
    clips = _clips(folder, videos, math.prod(shape))
    sources = [source for _, source in clips]
    skipped = {v.relative: folder.outcomes[i].reason for i, v in enumerate(videos) if folder.outcomes[i].reason}
    skipped.update(unlisted)
    statistics = PixelStatistics()
    frames_sha256 = _place_frames(folder, clips, statistics, shape)
    mean, std = statistics.mean_and_std()
    counts = {split: sum(source.split == split for source in sources) for split in SPLITS}
    header = StoreHeader(
        num_frames=config.num_frames,
        size=(config.size, config.size),
        classes=tuple(ordered_classes(source.label for source in sources)),
        # Only a store that has random windows of test videos speaks of them.
        splits={split: count for split, count in counts.items() if count or split != "test-random"},
        num_skipped=len(skipped),
        flip=flip,
        mean=mean,
        std=std,
        settings=as_dict(config),
        sha256={
            "frames.u8": frames_sha256,
            "clips.csv": _write(folder.finished / "clips.csv", clips_csv(sources)),
        },
    )
    _write(folder.finished / "skipped.csv", csv_text(("path", "reason"), sorted(skipped.items())))
    damaged = {v.relative: folder.outcomes[i].damage for i, v in enumerate(videos) if folder.outcomes[i].damage}
    if damaged:
        _write(folder.finished / "damaged.csv", csv_text(("path", "damage"), sorted(damaged.items())))
    _write(folder.finished / "store.json", header.to_json())
    sync_folder(folder.finished)


def _clips(folder: WorkingFolder, videos: list[VideoSource], clip_bytes: int) -> list[tuple[int, ClipSource]]:
    """Every clip with the byte where its slot starts, in the order of the store."""
    clips = []
    for number, video in enumerate(videos):
        outcome = folder.outcomes[number]
        for k, window in enumerate(outcome.windows):
            split = "test-random" if video.split == "test" and k > 0 else video.split
            source = ClipSource(
                split, video.label, video.relative, window.start, window.stride, outcome.video_frames
            )
            clips.append((folder.offsets[number] + k * clip_bytes, source))
    # The videos are in order; only the random windows of test videos have to go behind all the others.
    return sorted(clips, key=lambda clip: SPLITS.index(clip[1].split))


def _place_frames(
    folder: WorkingFolder, clips: list[tuple[int, ClipSource]], statistics: PixelStatistics, shape: tuple[int, ...]
) -> str:
    """Make `frames.u8`: the slots themselves where all are clips, else the clips without the holes between them.

    Counts the training pixels on the way; returns the SHA-256.
    """
    digest, path, num_bytes = hashlib.sha256(), folder.finished / "frames.u8", math.prod(shape)
    is_whole = [start for start, _ in clips] == list(range(0, folder.offsets[-1], num_bytes))
    is_there = False
    if is_whole:
        # Not every file system gives a file a second name.
        with contextlib.suppress(OSError):
            os.link(folder.slots, path)
            is_there = True
    with folder.slots.open("rb") as slots, contextlib.nullcontext() if is_there else path.open("wb") as frames:
        for start, source in clips:
            # Only what follows a hole, or stands behind its video's other clips, needs a seek.
            if slots.tell() != start:
                slots.seek(start)
            data = slots.read(num_bytes)
            digest.update(data)
            if source.split == "train":
                statistics.add(np.frombuffer(data, np.uint8).reshape(shape))
            if frames:
                frames.write(data)
        if frames:
            frames.flush()
            os.fsync(frames.fileno())
    return digest.hexdigest()


def _write(path: Path, text: str) -> str:
    data = text.encode()
    write_synced(path, data)
    return hashlib.sha256(data).hexdigest()
