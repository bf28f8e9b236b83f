"""Data set objects as a source: items with frames and a label, as Hugging Face and torchvision have them.

An item is read once, and its split may be settled only when all are known. So the clips that it may give are kept
in a nameless file until then, not the whole video. Such a run cannot go on after a kill: it starts again.
"""

import contextlib
import operator
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from prism.errors import ClipError, ConfigError, SourceError
from prism.ingestion.assemble import assemble
from prism.ingestion.decode import MIN_SIDE, Array, Outcome, as_rgb, fit
from prism.ingestion.listing import SPLIT_NAMES, DataSet, Listing, VideoSource
from prism.ingestion.options import IngestConfig
from prism.ingestion.sampling import Sampling
from prism.ingestion.splits import split_videos
from prism.ingestion.working import slot_offsets, working_folder
from prism.machine.files import partial_path, replace_folder, writing
from prism.machine.progress import note, progress_bar
from prism.machine.run import Run

VIDEO_KEYS, LABEL_KEYS, GROUP_KEY = ("video", "frames", "clip", "pixel_values"), ("label", "labels"), "group"
"""Names of the frames, the label and the recording of an item that is a table."""
SHAPES = (
    "(T, H, W, 3) or (T, 3, H, W) in whole numbers of 0..255, or in floats of 0..1, with T of at least 2 and "
    f"sides of at least {MIN_SIDE}"
)
Clips = dict[str, tuple[Outcome, int]]
"""For each split that an item may come into its windows, and the byte where their clips begin in the file."""


def ingest_items(source: DataSet, output: Path, config: IngestConfig, run: Run) -> None:
    """Make a store of a data set object, whose output is locked.

    Raises:
        ClipError: an item has no label, or no frames of a known shape and type.
        ConfigError: an option needs files.
        SourceError: the source is no data set, or has too few classes or unknown splits.
        OutputError: the store cannot be written, or the disk is full.
    """
    if config.layout != "auto":
        raise config.refusal("layout", "auto for a data set object")
    if config.sampling == "fps":
        raise config.refusal("sampling", "stride or even for a data set object, which has no frame rate")
    if run.executor is not None:
        raise ConfigError("a data set object is read in this process. Leave out the executor.")
    with writing(output):
        spool = tempfile.TemporaryFile(dir=output.parent)  # noqa: SIM115
    with spool:
        listing, clips = Listing(Path()), dict[str, Clips]()
        for video, of_video in _read(source, config, spool, output, run.progress):
            listing.videos.append(video)
            clips[video.relative] = of_video
        videos = split_videos(listing, config)
        for text in listing.notes:
            note(text)
        offsets = slot_offsets(videos, config)
        # No other run has this plan, so that none takes its folder over.
        folder = working_folder(partial_path(output), uuid.uuid4().hex, offsets)
        try:
            with writing(output, offsets[-1]):
                with folder.slots.open("r+b") as slots:
                    for number, video in enumerate(videos):
                        folder.outcomes[number], start = clips[video.relative][video.split]
                        spool.seek(start)
                        slots.seek(offsets[number])
                        slots.write(spool.read(offsets[number + 1] - offsets[number]))
                assemble(folder, videos, {}, config, config.flip != "off")
                replace_folder(folder.finished, output)
        finally:
            folder.remove()


def _read(
    source: DataSet, config: IngestConfig, spool: IO[bytes], output: Path, progress: bool
) -> Iterator[tuple[VideoSource, Clips]]:
    """Read all items, and write the clips that each may give to the file."""
    sampling = Sampling.of(config)
    for name, items, names in _splits(source):
        split = SPLIT_NAMES.get(name, "")
        # Others are cut from train, where the source lacks them.
        cut = ["val"] * (config.val_fraction > 0) + ["test"] * (config.test_fraction > 0)
        roles = [split or "train", *(cut if split in ("", "train") else ())]
        total = cast(Any, items).__len__() if hasattr(items, "__len__") else None
        with progress_bar("Reading", total, "items", enabled=progress) as advance:
            for number, item in enumerate(_each(items)):
                path = f"{name}/{number:07}" if name else f"{number:07}"
                where = f"item {number} of the {name} data set".replace("  ", " ")
                frames, label, recording = _parts_of(item, names, where)
                frames, clips = as_frames(frames, where), Clips()
                for role in roles:
                    windows = tuple(sampling.windows(len(frames), path, role, None))
                    clips[role] = Outcome(windows, len(frames)), spool.tell()
                    for window in windows:
                        indices = window.indices(config.num_frames, len(frames))
                        with writing(output):
                            spool.write(np.stack([fit(frames[index], config.size) for index in indices]).data)
                yield VideoSource(Path(), path, label, split, recording), clips
                advance()


def _splits(source: DataSet) -> Iterator[tuple[str, Iterable[Any], Sequence[str] | None]]:
    """The name of each split, its items, and the names of its classes if it has some."""
    for name, items in source.items() if isinstance(source, Mapping) else [("", source)]:
        if name and name not in SPLIT_NAMES:
            allowed = ", ".join(SPLIT_NAMES)
            raise SourceError(f"the data set has the split {name!r}, but it must be one of {allowed}. Rename it.")
        features = getattr(items, "features", None) or {}
        named = (getattr(features.get(key), "names", None) for key in LABEL_KEYS)
        yield name, items, next(filter(None, named), getattr(items, "classes", None))


def _each(items: Any) -> Iterator[Any]:
    # Many data sets have no end but their length: to ask beyond it may give anything.
    if hasattr(items, "__getitem__") and hasattr(items, "__len__"):
        return (items[number] for number in range(len(items)))
    if not isinstance(items, Iterable):
        problem = f"of type {type(items).__name__}, but it must be a folder, a list or a data set"
        raise SourceError(f"the source is {problem}.")
    return iter(items)


def _parts_of(item: Any, names: Sequence[str] | None, where: str) -> tuple[Any, str, str]:
    """The frames, class and recording of an item; what is between frames and label is passed over."""
    group = None
    if isinstance(item, Mapping):
        found = [next((item[key] for key in keys if key in item), None) for keys in (VIDEO_KEYS, LABEL_KEYS)]
        group = item.get(GROUP_KEY)
    else:
        found = [item[0], item[-1]] if isinstance(item, tuple | list) and len(item) > 1 else [item, None]
    for what, value in zip(("frames", "label"), found, strict=True):
        if value is None:
            raise ClipError(
                f"{where} has no {what}. It must be (frames, label), or a table with 'video' and 'label'."
            )
    frames, label = found
    if not isinstance(label, str) or not label:
        most = len(names) if names is not None else 2**31
        number = -1
        with contextlib.suppress(TypeError):
            number = operator.index(cast(Any, label))
        if not 0 <= number < most:
            range_ = f"0..{most - 1}" if names is not None else "0, 1, …"
            problem = f"the label {str(label)[:80]!r}, but it must be a name or one of {range_}"
            raise ClipError(f"{where} has {problem}.")
        label = str(number if names is None else names[number])
    return frames, label, "" if group is None else str(group).strip()


def as_frames(video: Any, where: str) -> Array:
    """The frames of an item as (T, H, W, 3) uint8.

    Args:
        video: an array or tensor, (T, H, W, 3) or (T, 3, H, W), uint8 or floats in 0..1; or its frames one by one,
            as pictures, arrays, or a decoder that gives them.
        where: the item, for messages.

    Raises:
        ClipError: it is something else.
    """
    if isinstance(video, Mapping | str | bytes):
        raise ClipError(
            f"{where} has a video that is not decoded. Install torchcodec, with which datasets decodes, or ingest "
            "the files themselves."
        )
    try:
        pictures = (as_rgb(frame) if hasattr(frame, "convert") else np.asarray(frame) for frame in video)
        frames = np.asarray(video) if hasattr(video, "shape") else np.stack(list(pictures))
    except (TypeError, ValueError, RuntimeError) as error:
        problem = str(error).partition("\n")[0].rstrip(".")
        raise ClipError(f"{where} has frames that cannot be read: {problem}. They must be {SHAPES}.") from None
    if frames.ndim == 4 and frames.shape[-1] != 3 and frames.shape[1] == 3:
        frames = frames.transpose(0, 2, 3, 1)
    if frames.ndim != 4 or frames.shape[-1] != 3 or len(frames) < 2 or min(frames.shape[1:3]) < MIN_SIDE:
        hint = " Is this (C, T, H, W)?" if frames.ndim == 4 and frames.shape[0] == 3 else ""
        raise ClipError(f"{where} has frames of shape {frames.shape}, but they must be {SHAPES}.{hint}")
    most = {"f": 1, "i": 255, "u": 255}.get(frames.dtype.kind)
    if most is None or not (frames.min() >= 0 and frames.max() <= most):
        raise ClipError(f"{where} has frames of {frames.dtype} that are no pixels; they must be {SHAPES}.")
    if most == 1:
        frames = 255 * frames.astype(np.float32) + 0.5
    return np.ascontiguousarray(frames.astype(np.uint8, copy=False))
