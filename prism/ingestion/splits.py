"""Splits of the videos of a source: as the source names them, or cut with a seed.

Cut splits never divide a recording. Its clips look alike, so a recording in both train and test would give a high
score to a network that remembers places rather than actions.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from prism.artifacts.kinds import STORE, kind_of
from prism.artifacts.store import SPLITS, UCF_RECORDING, ordered_classes, recording_in
from prism.errors import ConfigError, SourceError
from prism.ingestion.listing import Listing, VideoSource, files_of, named, why_skipped, with_number
from prism.ingestion.options import LAYOUTS, IngestConfig
from prism.machine.files import file_sha256
from prism.machine.randomness import derive_seed


def list_videos(source: Path, config: IngestConfig | None = None) -> Listing:
    """The videos of a source, listed by the layout of the options and sorted by relative path."""
    config = config or IngestConfig()
    if not source.exists():
        raise SourceError(f"source '{source}' does not exist.")
    if source.is_dir() and kind_of(source) == STORE:
        raise SourceError(f"source '{source}' is a clip store already. Name the videos that it was made from.")
    if source.is_file() and source.suffix.lower() != ".csv":
        raise SourceError(f"source '{source}' is a file, but must be a folder of videos or a .csv list of them.")
    listing = LAYOUTS.make(config.layout, config).videos_of(source)
    if not isinstance(listing, Listing):
        given = f"layout {LAYOUTS.name_of(config.layout)} gives a {type(listing).__name__}"
        raise ConfigError(f"{given}, not a Listing. docs/api.md shows one.")
    listing.check()
    listing.keep_files(config.follow_links)
    if lost := sorted(listing.labels.keys() - {video.label for video in listing.videos}):
        path = min(listing.labels[label] for label in lost)
        said = f"classes of which no video can be used: {named(lost)}"
        raise SourceError(f"{said}. '{path}' is skipped because {listing.skipped[path]}")
    if not listing.videos:
        said = f"layout {LAYOUTS.name_of(config.layout)} finds no videos in source '{source}'."
        raise SourceError(listing.none_found(source) if LAYOUTS.is_builtin(config.layout) else said)
    listing.videos.sort(key=lambda video: video.relative)
    return listing


def split_videos(listing: Listing, config: IngestConfig) -> list[VideoSource]:
    """The videos of a listing with their splits, in the order of a store; adds cautions to the listing's notes."""
    try:
        videos = assign_splits(listing.videos, config)
    except SourceError as error:
        skipped = f" Skipped: {why_skipped(listing.skipped)}" if listing.skipped else ""
        raise SourceError(f"{error}{skipped}") from None
    labels = {name: label for label, name in enumerate(ordered_classes(video.label for video in videos))}
    videos.sort(key=lambda video: (SPLITS.index(video.split), labels[video.label], video.relative))
    listing.notes.extend(_cautions(listing.videos, videos, config))
    return videos


def assign_splits(videos: Iterable[VideoSource], config: IngestConfig) -> list[VideoSource]:
    """Videos with their splits: as the source names them, else cut from the training videos with a seed.

    Test is cut first, then validation from the rest, each by class and by recording; a class with one recording
    keeps it in train. SourceError for fewer than two classes, or a class without training videos.
    """
    videos = [replace(video, split=video.split or "train") for video in videos]
    labels = {video.label for video in videos}
    if len(labels) < 2:
        found = f"only class '{min(labels)}'" if labels else "no class"
        raise SourceError(f"the source has {found}, but it takes at least two. Name the folder above the classes.")
    if lost := sorted(labels - {video.label for video in videos if video.split == "train"}):
        raise SourceError(f"classes with videos in other splits, but none in train: {named(lost)}.")
    for split, share in (("test", config.test_fraction), ("val", config.val_fraction)):
        if share and not any(video.split == split for video in videos):
            videos = _cut(videos, split, share, config)
    return videos


def _cut(videos: list[VideoSource], split: str, share: float, config: IngestConfig) -> list[VideoSource]:
    """Move a share of each class's training recordings to a split: at least one if the class has two.

    A recording with several classes (as of one person) moves whole, unless a class would lose its last recording.
    """
    recordings = defaultdict[str, list[int]](list)
    for number, video in enumerate(videos):
        if video.split == "train":
            recordings[recording(video, config.group_pattern)].append(number)
    labels = {name: sorted({videos[n].label for n in numbers}) for name, numbers in recordings.items()}
    left = Counter(label for of_recording in labels.values() for label in of_recording)
    kept = {label: max(1, num - max(1, round(share * num))) for label, num in left.items()}
    for name in sorted(labels, key=lambda name: derive_seed(config.seed, split, *labels[name], name)):
        if any(left[of] > kept[of] for of in labels[name]) and all(left[of] > 1 for of in labels[name]):
            left.subtract(labels[name])
            for number in recordings[name]:
                videos[number] = replace(videos[number], split=split)
    return videos


def recording(video: VideoSource, pattern: str) -> str:
    """The recording of a video: the group of `pattern` in its path, else as the source names it, else the path."""
    return recording_in(video.relative, pattern) or video.recording or video.relative


def recording_that_counts(video: VideoSource, pattern: str) -> str:
    """The recording of a video; if neither pattern nor source names it, by file names like UCF101's."""
    return recording(video, pattern or ("" if video.recording else UCF_RECORDING))


def recordings_beside_paths(videos: Sequence[VideoSource], pattern: str) -> list[str]:
    """The recording to store for each video: empty if its path alone gives the same name, or the same groups."""
    found = [(video.label, recording_that_counts(video, pattern)) for video in videos]
    by_path = [(v.label, recording_in(v.relative, pattern or UCF_RECORDING) or v.relative) for v in videos]
    if len({*found}) == len({*by_path}) == len({*zip(found, by_path, strict=True)}):
        return [""] * len(videos)
    return ["" if name == other else name[1] for name, other in zip(found, by_path, strict=True)]


def _cautions(listed: Sequence[VideoSource], videos: Sequence[VideoSource], config: IngestConfig) -> Iterator[str]:
    if config.test_fraction and not any(video.split == "test" for video in listed):
        num_test = sum(video.split == "test" for video in videos)
        none = "none can be set apart, so nothing can be scored. Every class has a single video or recording"
        yield f"The source names no test videos: {f'{num_test:,} are set apart from train' if num_test else none}."
    tested = {video.label for video in videos if video.split == "test"}
    if tested and (lost := {video.label for video in videos} - tested):
        yield f"Caution: classes without test videos: {named(lost)}. No score says anything of them."
    pattern, splits_of, single = config.group_pattern, defaultdict[str, set[str]](set), list[str]()
    for video in videos:
        name = recording_that_counts(video, pattern)
        if name == video.relative:
            single.append(name)
        else:
            # File names like UCF101's number the recordings of each class anew, so the class is added.
            splits_of[name if pattern or video.recording else f"{video.label}/{name}"].add(video.split)
    if pattern and single:
        said = f"group pattern '{pattern}' finds no recording in {named(single)} of {len(videos):,} paths"
        remedy = "A .csv list may name recordings in a column group."
        if not splits_of:
            raise SourceError(f"{said}. {remedy}")
        yield f"Caution: {said}: each of these videos counts as a recording of its own. {remedy}"
    if parted := [name for name, splits in splits_of.items() if len(splits) > 1]:
        said = f"recordings with clips in more than one split: {named(parted)} of {len(splits_of):,}"
        remedy = "--group-pattern sets recordings apart whole where splits are cut; '_(g\\d+)_' finds them in"
        yield f"Caution: {said}. They look alike, so scores will be too high. {remedy} names like _g01_c02."
    if copies := list(_copies(videos)):
        said = f"videos that are copies of one in another split, byte for byte: {with_number(copies)}"
        yield f"Caution: {said}. A network is then scored on what it has seen. Remove one."


def _copies(videos: Sequence[VideoSource]) -> Iterator[str]:
    """Texts on videos with equal bytes in two splits; to read few files, only equal sizes are compared."""
    of_size, first = defaultdict[int, list[VideoSource]](list), dict[tuple[str, ...], VideoSource]()
    for video in videos:
        with suppress(OSError):
            if size := sum(file.stat().st_size for file in files_of(video.path)):
                of_size[size].append(video)
    for video in (video for group in of_size.values() if len({v.split for v in group}) > 1 for video in group):
        with suppress(OSError):
            # Reading a pipe would never end.
            digests = tuple(file_sha256(file) for file in files_of(video.path) if file.is_file())
            other = first.setdefault(digests, video)
            if other.split != video.split:
                yield f"'{video.relative}' ({video.split}) of '{other.relative}' ({other.split})"
