"""The options of `prism ingest` and `prism motion`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from prism.artifacts.store import has_group
from prism.config import SHARE, Group, OmitDefault, Options, Range, at_least, between
from prism.parts import Parts

LAYOUTS = Parts(
    "layout",
    "prism.ingestion.listing:Layout",
    {
        "auto": "prism.ingestion.listing:Auto",
        "ucf101": "prism.ingestion.official:Ucf101",
        "miniucf": "prism.ingestion.official:MiniUcf",
        "hmdb51": "prism.ingestion.official:Hmdb51",
        "kinetics400": "prism.ingestion.official:Kinetics400",
        "ssv2": "prism.ingestion.official:SomethingSomething",
    },
)

SIDE = Range("an even number between 32 and 1024", lambda value: value % 2 == 0 and 32 <= value <= 1024)
GROUP_PATTERN = Range("a regular expression with a group (…)", has_group)


@dataclass(frozen=True)
class MotionConfig(Options, section="motion"):
    """Options of `prism motion`."""

    kind: Annotated[Literal["pairs", "glyphs"], Group("The videos")] = "pairs"
    """`pairs`: two objects, ten classes that differ only in motion; `glyphs`: a sign among clutter, five signs \
times two motions."""
    train_per_class: Annotated[int, at_least(1)] = 40
    """Training videos per class."""
    test_per_class: Annotated[int, at_least(1)] = 20
    """Test videos per class."""
    num_frames: Annotated[int, between(8, 1000)] = 24
    """Frames per video, written at 12 frames per second."""
    size: Annotated[int, SIDE] = 64
    """Height and width of a video in pixels (even)."""
    seed: int = 0
    """Seed of every appearance and movement."""


@dataclass(frozen=True)
class IngestConfig(Options, section="ingest"):
    """Options of `prism ingest`."""

    num_frames: Annotated[int, Group("Clips"), between(2, 4096)] = 16
    """Frames per clip (T)."""
    stride: Annotated[int, between(1, 10_000)] = 4
    """With sampling stride: video frames from one frame of a clip to the next; a shorter video uses fewer."""
    size: Annotated[int, between(8, 4096)] = 112
    """Height and width of a clip in pixels; the short side is resized to it, then the centre is cropped. \
Network convnet3d needs 43."""
    sampling: Literal["stride", "fps", "even"] = "stride"
    """Distance of a clip's frames: `stride` video frames, `fps` frames per second, or `even`: as far apart as \
the video allows."""
    fps: Annotated[float, between(0.001, 1000)] = 2.0
    """With sampling fps: frames of a clip per second of the video; a short video gives them closer together."""
    clips_per_video: Annotated[int, at_least(1)] = 1
    """Windows drawn at random from each training video (validation and test use the centre)."""
    window: Literal["random", "centre"] = "random"
    """Where the window of a training video lies: drawn at random, or in the centre as in validation and test."""
    random_test_windows: Annotated[int, between(0, 1000), OmitDefault()] = 0
    """Windows drawn at random from each test video, beside the centre one; protocol wang2024 scores on 3."""
    flip: Literal["auto", "on", "off"] = "auto"
    """Whether a horizontal flip keeps the labels: `off` where left and right differ; `auto` follows the \
prism.json of the source, and is on without one."""
    seed: int = 0
    """Seed of all random windows and of the splits that are cut."""
    name: Annotated[str, OmitDefault()] = ""
    """Name of the data set, for the titles of pages; empty: the name of the store's folder."""
    layout: Annotated[str, Group("Classes and splits"), LAYOUTS] = "auto"
    """Source of classes and splits: `auto` (root/<class>/*, root/{train,val,test}/<class>/*, or a list with \
path, label, perhaps split and group), or a published data set with its official annotation files."""
    follow_links: Annotated[bool, OmitDefault()] = False
    """Read links that leave the source, and search folders that are links, as in a snapshot of the Hugging Face \
Hub."""
    official_split: Annotated[int, between(1, 3)] = 1
    """Which official split of ucf101, miniucf or hmdb51: 1, 2 or 3."""
    train_list: Annotated[Literal["official", "all-but-test"], OmitDefault()] = "official"
    """hmdb51: train on the 70 videos per class that the split names, or all that it does not test (wang2024)."""
    annotations: str = ""
    """Folder of the official annotation files, absolute or relative to the source; empty: the source. The files \
may lie up to two folders deeper."""
    val_fraction: Annotated[float, SHARE] = 0.1
    """Share of each class's training videos set apart for validation, where the source names none; 0 for none."""
    test_fraction: Annotated[float, SHARE] = 0.2
    """Share of the videos of each class set apart for test, where the source names none; 0 for none."""
    group_pattern: Annotated[str, GROUP_PATTERN] = ""
    """Regular expression whose first group is the recording in a path (UCF101: `_(g\\d+)_`); cut splits keep a \
recording whole. Empty: the column `group` of a CSV list, else each video is a recording."""
    damaged: Annotated[Literal["use", "skip"], Group("Videos that are skipped"), OmitDefault()] = "use"
    """A video that is damaged outside of its clips, or cut short by more than a tenth: `use` it and list it in \
damaged.csv, or `skip` it, which decodes long videos as a whole, too."""
    max_decode_seconds: Annotated[float, between(0.1, 1e9), OmitDefault()] = 600.0
    """A video whose decoding takes longer than this many seconds is skipped."""
    # A decoding process takes 128 MiB before its first video.
    max_decode_bytes: Annotated[int, at_least(2**29), OmitDefault()] = 2**32
    """A video whose decoding takes more bytes of memory is skipped."""

    def relations(self) -> Iterator[tuple[str, bool, str]]:
        """Options that apply only to one sampling, window or layout, and else must keep their default."""
        for name in ("stride", "fps"):
            fits = self.sampling == name or getattr(self, name) == getattr(IngestConfig, name)
            yield name, fits, f"left out unless sampling is {name}"
        is_drawn = self.window == "random" and self.sampling != "even"
        yield "clips_per_video", is_drawn or self.clips_per_video == 1, "1 with window centre or sampling even"
        # Reading a recipe must not import a custom layout.
        is_named = isinstance(self.layout, str) and not LAYOUTS.is_builtin(self.layout)
        layout = self if is_named else LAYOUTS.make(self.layout, self)
        for name in ("annotations", "official_split", "train_list", "follow_links"):
            # The fields of a layout are the options that it reads.
            fits = hasattr(layout, name) or getattr(self, name) == getattr(IngestConfig, name)
            yield name, fits, f"left out with layout {LAYOUTS.name_of(self.layout)}"
