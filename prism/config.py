"""Every option of every verb, said once: name, type, default, range and help.

The attribute docstrings become the help of the command line, the field names its options and the
keys of TOML recipes. Nothing here imports torch, so `prism --help` stays fast.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from prism.errors import ConfigError
from prism.runtime import read_text

T = TypeVar("T")

RECIPES = Path(__file__).parent / "recipes"
"""The recipes that PRISM ships."""

MAX_COUNT = 2**40
"""No count is larger: beyond 64 bits the libraries below would raise errors of their own."""

Storage = Literal["float32", "float16", "uint8", "webp", "h264", "av1"]
Init = Literal["noise", "real"]
Insertion = Literal["gradient", "never", "random", "l2", "budget"]
Gradient = Literal["slot", "parameter"]
CondenseMethod = Literal["prism", "dm", "static-dynamic"]
RealMoments = Literal["fresh", "bank"]
Precision = Literal["float32", "bfloat16"]
SelectMethod = Literal["random", "herding", "k-center"]
Model = Literal["convnet3d", "cnn-gru", "cnn-lstm", "r2plus1d-18"]
Split = Literal["train", "val", "test"]
StoreSplit = Literal[Split, "test-random"]
QuerySplit = Literal["val", "test"]
Layout = Literal["auto", "classes", "splits", "csv", "ucf101", "miniucf", "hmdb51", "kinetics400", "ssv2"]
Sampling = Literal["stride", "fps", "even"]
Window = Literal["random", "centre"]
Flip = Literal["auto", "on", "off"]
Protocol = Literal["clean", "wang2024"]
TrainList = Literal["official", "all-but-test"]
Scale = Literal["full", "small"]

OFFICIAL_SPLITS = {"ucf101": 3, "miniucf": 3, "hmdb51": 3, "kinetics400": 1, "ssv2": 1}
"""Layouts that read official annotation files, with the number of official splits."""

COMPRESSED = ("webp", "h264", "av1")
"""Storage that keeps pictures at a quality, not numbers in a format."""

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
"""Units of a number of bytes."""

BUDGET = re.compile(rf"(\d{{1,12}}(?:\.\d{{1,6}})?)({'|'.join(UNITS)})?", re.ASCII)
"""A number, perhaps with a unit of bytes."""

MAX_LR = 1e38
"""Learning rates from here on overflow float32."""


def _require(section: str, key: str, value: object, allowed: bool, promise: str) -> None:
    if isinstance(value, int) and value > MAX_COUNT:
        raise ConfigError(f"{section}.{key} = {value!r}, but it must be at most {MAX_COUNT}.")
    if not allowed:
        raise ConfigError(f"{section}.{key} = {value!r}, but it must be {promise}.")


def _require_choice(section: str, key: str, value: object, choices: Any) -> None:
    allowed = get_args(choices)
    if value not in allowed:
        raise ConfigError(f"{section}.{key} = {value!r}, but it must be one of {', '.join(allowed)}.")


def _num_groups(pattern: str) -> int:
    try:
        return re.compile(pattern).groups
    except re.error:
        return 0


@dataclass(frozen=True)
class MotionConfig:
    """Options of `prism motion`."""

    train_per_class: int = 40
    """Training videos per class."""
    test_per_class: int = 20
    """Test videos per class."""
    num_frames: int = 24
    """Frames per video, written at 12 frames per second."""
    size: int = 64
    """Height and width of a video in pixels (even)."""
    seed: int = 0
    """Seed of every appearance and movement."""

    def __post_init__(self) -> None:
        _require("motion", "train_per_class", self.train_per_class, self.train_per_class >= 1, "at least 1")
        _require("motion", "test_per_class", self.test_per_class, self.test_per_class >= 1, "at least 1")
        _require("motion", "num_frames", self.num_frames, 8 <= self.num_frames <= 1000, "between 8 and 1000")
        even = self.size % 2 == 0 and 32 <= self.size <= 1024
        _require("motion", "size", self.size, even, "an even number between 32 and 1024")


@dataclass(frozen=True)
class IngestConfig:
    """Options of `prism ingest`."""

    num_frames: int = 16
    """Frames per clip (T)."""
    stride: int = 4
    """Distance between two frames of a clip, in video frames; a shorter video uses a smaller one."""
    sampling: Sampling = "stride"
    """How far apart the frames of a clip are: `stride` video frames; as far as at `fps` frames a second; or \
`even`, as far as the video allows, around its centre."""
    fps: float = 2.0
    """With sampling fps: frames of a clip per second of the video; a shorter video takes them closer."""
    size: int = 112
    """Height and width of a clip in pixels; the short side is resized to it, then the centre is cropped."""
    clips_per_video: int = 1
    """Windows drawn at random from each training video (validation and test use the centre)."""
    window: Window = "random"
    """Where the window of a training video lies: drawn at random, or in the centre as in validation and test."""
    random_test_windows: int = 0
    """Windows drawn at random from each test video, beside the centre one, for protocols that score on such: \
3 for wang2024."""
    layout: Layout = "auto"
    """How the source names classes and splits: `classes` (root/<class>/*), `splits` \
(root/{train,val,test}/<class>/*), `csv` (a list with path, label, split), or found out; or a data set with its \
official annotation files."""
    official_split: int = 1
    """Which official split of ucf101, miniucf or hmdb51: 1, 2 or 3."""
    train_list: TrainList = "official"
    """hmdb51: train on the 70 videos of each class that the split names, or on all that it does not test, as \
the protocol wang2024 does."""
    annotations: str = ""
    """Folder of the official annotation files, absolute or seen from the source; empty: the source itself and \
the usual folders in it are searched."""
    val_fraction: float = 0.1
    """Share of the training videos of each class set apart for validation, where the source names none; \
0 for none."""
    test_fraction: float = 0.2
    """Share of the videos of each class set apart for test, where the source names none; 0 for none."""
    group_pattern: str = ""
    """Regular expression whose first group names the recording of a path (UCF101: `_(g\\d+)_`), so that \
recordings are set apart whole; empty: videos are set apart one by one."""
    min_side: int = 8
    """A video whose frames are lower or narrower than this many pixels is skipped."""
    max_pixels: int = 2**25
    """A video whose frames have more pixels (height times width) is skipped; the default admits 7680 by 4320."""
    max_seconds: float = 14400.0
    """A video that plays longer than this many seconds is skipped."""
    max_decode_seconds: float = 600.0
    """A video whose decoding takes longer than this many seconds is skipped."""
    max_decode_bytes: int = 2**32
    """A video whose decoding takes more bytes of memory is skipped."""
    flip: Flip = "auto"
    """Whether a horizontal flip keeps the labels: `off` where left and right differ; `auto` follows the \
prism.json of the source, and is on without one."""
    seed: int = 0
    """Seed of the training windows and of the splits that are cut."""

    def __post_init__(self) -> None:
        _require("ingest", "num_frames", self.num_frames, 2 <= self.num_frames <= 4096, "between 2 and 4096")
        _require("ingest", "stride", self.stride, 1 <= self.stride <= 10_000, "between 1 and 10000")
        _require("ingest", "size", self.size, 8 <= self.size <= 4096, "between 8 and 4096")
        _require("ingest", "clips_per_video", self.clips_per_video, self.clips_per_video >= 1, "at least 1")
        _require_choice("ingest", "sampling", self.sampling, Sampling)
        _require("ingest", "fps", self.fps, 0 < self.fps <= 1000, "above 0 and at most 1000")
        _require_choice("ingest", "window", self.window, Window)
        one_window = self.window == "centre" or self.sampling == "even"
        fits = self.clips_per_video == 1 or not one_window
        _require("ingest", "clips_per_video", self.clips_per_video, fits, "1 with window centre or sampling even")
        few = 0 <= self.random_test_windows <= 1000
        _require("ingest", "random_test_windows", self.random_test_windows, few, "between 0 and 1000")
        _require_choice("ingest", "layout", self.layout, Layout)
        splits = range(1, OFFICIAL_SPLITS.get(self.layout, 1) + 1)
        promise = f"one of {', '.join(map(str, splits))} with layout {self.layout}"
        _require("ingest", "official_split", self.official_split, self.official_split in splits, promise)
        _require_choice("ingest", "train_list", self.train_list, TrainList)
        has_rest = self.train_list == "official" or self.layout == "hmdb51"
        promise = f"official with layout {self.layout}; only hmdb51 has videos in neither list"
        _require("ingest", "train_list", self.train_list, has_rest, promise)
        is_read = not self.annotations or self.layout in OFFICIAL_SPLITS
        promise = f"empty unless the layout is one of {', '.join(OFFICIAL_SPLITS)}"
        _require("ingest", "annotations", self.annotations, is_read, promise)
        for key, share in (("val_fraction", self.val_fraction), ("test_fraction", self.test_fraction)):
            _require("ingest", key, share, 0 <= share < 1, "at least 0 and below 1")
        has_group = _num_groups(self.group_pattern) > 0 or not self.group_pattern
        _require("ingest", "group_pattern", self.group_pattern, has_group, "a regular expression with a group (…)")
        _require("ingest", "min_side", self.min_side, 1 <= self.min_side <= 4096, "between 1 and 4096")
        _require("ingest", "max_pixels", self.max_pixels, self.max_pixels >= 1, "at least 1")
        for key, seconds in (("max_seconds", self.max_seconds), ("max_decode_seconds", self.max_decode_seconds)):
            _require("ingest", key, seconds, 0 < seconds <= 1e9, "above 0 and at most 1e9")
        # A decoding process takes a quarter of that before it has seen a video.
        _require(
            "ingest", "max_decode_bytes", self.max_decode_bytes, self.max_decode_bytes >= 2**29, "at least 2^29"
        )
        _require_choice("ingest", "flip", self.flip, Flip)


@dataclass(frozen=True)
class SelectConfig:
    """Options of `prism select`; the defaults are the set that we found worth most at its clips and bytes."""

    method: SelectMethod = "random"
    """How real clips are chosen."""
    vpc: int = 1
    """Videos per class."""
    takes: int = 0
    """Clips that each video stands for, one of which is drawn whenever it is shown: an epoch trains on vpc clips \
of each class, many epochs see vpc·takes of them. 0 takes as many as the smallest class has; 1 is a coreset, as \
the field compares with."""
    storage: Storage = "h264"
    """Number format of the stored frames (uint8 keeps real clips exactly), or their compression: `webp` stills, \
or `h264` or `av1` video."""
    quality: int = 35
    """webp, h264 and av1: what the compression keeps, 0 to 100. WebP's own quality; H.264's constant rate factor \
is 51 − 0.51·quality (55 is the usual 23), AV1's 63 − 0.62·quality."""
    seed: int = 0
    """Seed of the choice."""
    model: Model = "convnet3d"
    """Herding and k-center: network that embeds the training clips."""
    width: int = 0
    """Channels of its first block; 0 for the published number."""
    epochs: int = 50
    """Passes over all training clips that it is trained for; 0 leaves it random. Its embeddings are kept \
in the store and shared by every vpc."""
    embedder_seed: int = 0
    """Seed of its initial values and its training."""

    def __post_init__(self) -> None:
        _require_choice("select", "method", self.method, SelectMethod)
        _require("select", "vpc", self.vpc, self.vpc >= 1, "at least 1")
        _require("select", "takes", self.takes, self.takes >= 0, "at least 0")
        _require_choice("select", "model", self.model, Model)
        _require("select", "width", self.width, 0 <= self.width <= 4096, "between 0 and 4096")
        _require("select", "epochs", self.epochs, self.epochs >= 0, "at least 0")
        _require_choice("select", "storage", self.storage, Storage)
        _require("select", "quality", self.quality, 0 <= self.quality <= 100, "between 0 and 100")


@dataclass(frozen=True)
class CondenseConfig:
    """Options of `prism condense`; the defaults are the paper's for VPC 1."""

    method: CondenseMethod = "prism"
    """What the synthetic videos are made of: `prism`, interpolated key-frames; `dm`, real clips of which \
every frame is trained (it fixes init, initial_keyframes and insertion); `static-dynamic`, two static images and \
two dynamic memories for each video with one hallucinator for all (Wang et al.; it fixes init, insertion and \
gradient_decay)."""
    vpc: int = 1
    """Synthetic videos per class."""
    iterations: int = 5000
    """Optimisation steps; each draws a fresh random network. The paper does not state the number; the \
protocol it follows uses 5000."""
    lr: float = 1.0
    """Learning rate of the key-frames."""
    static_iterations: int = 1000
    """static-dynamic: steps before the others, in which the static images are learned from single frames."""
    static_lr: float = 1.0
    """static-dynamic: learning rate of the static images, which do not move after those steps."""
    dynamic_lr: float = 1e-4
    """static-dynamic: learning rate of the dynamic memories; published: 1e-4 for VPC 1, 1e3 for VPC 5."""
    hallucinator_lr: float = 1e-5
    """static-dynamic: learning rate of the hallucinator; published: 1e-5 for VPC 1, 1e-6 for VPC 5."""
    momentum: float = 0.95
    """Momentum of SGD."""
    batch_real: int = 64
    """Real clips per class and step; a smaller class gives all it has."""
    real_moments: RealMoments = "fresh"
    """Real class means: of a fresh network and real batch in each iteration (the paper), or exact ones of a \
bank of networks, which costs far less."""
    bank_size: int = 32
    """Networks in the bank."""
    bank_refresh: int = 0
    """Iterations after which a network of the bank is replaced by a new one; 0 for never."""
    bank_seed: int = 0
    """Seed of the networks in the bank. Their class means are kept in the store: every vpc, method and seed \
with the same bank_seed shares them."""
    init: Init = "noise"
    """What the key-frames start as: Gaussian noise, or frames of random real clips."""
    initial_keyframes: int = 2
    """Key-frames per video at the start, evenly spread; 0 for every frame."""
    keyframe_scale: int = 1
    """How many times as high and wide as a stored key-frame a clip is: 2 trains and stores key-frames of half \
the height and width, which are enlarged bilinearly."""
    fully_learnable: bool = False
    """Interpolate the initial key-frames, then make every frame trainable from the first step."""
    insertion: Insertion = "gradient"
    """Which frames become key-frames: where gradients conflict (the paper), never, as many at random, \
where gradients are far apart, or those that lower the loss most until the `budget` is spent."""
    budget: str = ""
    """With insertion budget: what the key-frames of all videos may take, as `12MiB` or `300kB`; or key-frames \
per video on average, as `2.8`. Every class gets an equal share and spends it where it likes."""
    gradient: Gradient = "slot"
    """What a key-frame's gradient is: that of its own frame, or that of the trainable parameter, which adds \
its interpolated neighbours'."""
    gradient_decay: float = 0.0
    """Decay of the running mean that estimates the gradients before they are judged; 0 is the paper's rule, \
which judges a single sample."""
    epsilon: float = 0.0
    """Threshold of the cosine below which two gradients conflict."""
    warmup: float = 0.2
    """Share of the iterations at the start without insertion."""
    cooldown: float = 0.2
    """Share of the iterations at the end without insertion."""
    model: Model = "convnet3d"
    """Network whose random draws embed the clips."""
    width: int = 0
    """Channels of the network's first block; 0 for the published number."""
    precision: Precision = "float32"
    """Number format in which the network embeds real clips; bfloat16 is up to twice as fast where the processor \
has instructions for it. Class means, losses and gradients are float32 in either."""
    storage: Storage = "float32"
    """Number format of the stored key-frames, or, except for static-dynamic, their compression: `webp` stills, \
or `h264` or `av1` video."""
    quality: int = 50
    """webp, h264 and av1: what the compression keeps, 0 to 100, as in `prism select`."""
    seed: int = 0
    """Seed of everything random."""

    def __post_init__(self) -> None:
        _require_choice("condense", "method", self.method, CondenseMethod)
        _require("condense", "vpc", self.vpc, self.vpc >= 1, "at least 1")
        _require("condense", "iterations", self.iterations, self.iterations >= 1, "at least 1")
        _require(
            "condense", "static_iterations", self.static_iterations, self.static_iterations >= 0, "at least 0"
        )
        for key in ("lr", "static_lr", "dynamic_lr", "hallucinator_lr"):
            rate = getattr(self, key)
            _require("condense", key, rate, 0 < rate < MAX_LR, f"positive and below {MAX_LR:g}")
        _require("condense", "momentum", self.momentum, 0 <= self.momentum < 1, "at least 0 and below 1")
        _require("condense", "batch_real", self.batch_real, self.batch_real >= 1, "at least 1")
        _require_choice("condense", "real_moments", self.real_moments, RealMoments)
        _require("condense", "bank_size", self.bank_size, self.bank_size >= 1, "at least 1")
        _require("condense", "bank_refresh", self.bank_refresh, self.bank_refresh >= 0, "at least 0")
        _require_choice("condense", "init", self.init, Init)
        enough = self.initial_keyframes == 0 or self.initial_keyframes >= 2
        _require(
            "condense", "initial_keyframes", self.initial_keyframes, enough, "at least 2, or 0 for every frame"
        )
        small = 1 <= self.keyframe_scale <= (1 if self.method == "static-dynamic" else 16)
        promise = "between 1 and 16, and 1 with method static-dynamic"
        _require("condense", "keyframe_scale", self.keyframe_scale, small, promise)
        _require_choice("condense", "insertion", self.insertion, Insertion)
        has_budget = self.insertion == "budget"
        promise = (
            "bytes (12MiB, 300kB) or key-frames per video (2.8)"
            if has_budget
            else "empty unless insertion is budget"
        )
        _require("condense", "budget", self.budget, bool(BUDGET.fullmatch(self.budget)) == has_budget, promise)
        counted = not (has_budget and self.budget[-1:].isalpha() and self.storage in COMPRESSED)
        promise = f"key-frames per video (2.8) with storage {self.storage}, whose bytes are known at the end"
        _require("condense", "budget", self.budget, counted, promise)
        spread = not has_budget or (self.initial_keyframes >= 2 and not self.fully_learnable)
        _require(
            "condense", "insertion", self.insertion, spread, "another where every frame is a key-frame at once"
        )
        _require_choice("condense", "gradient", self.gradient, Gradient)
        decays = 0 <= self.gradient_decay < 1
        _require("condense", "gradient_decay", self.gradient_decay, decays, "at least 0 and below 1")
        _require("condense", "epsilon", self.epsilon, -1 <= self.epsilon <= 1, "between -1 and 1")
        _require("condense", "warmup", self.warmup, 0 <= self.warmup <= 1, "between 0 and 1")
        _require("condense", "cooldown", self.cooldown, 0 <= self.cooldown <= 1, "between 0 and 1")
        _require_choice("condense", "model", self.model, Model)
        _require("condense", "width", self.width, 0 <= self.width <= 4096, "between 0 and 4096")
        _require_choice("condense", "precision", self.precision, Precision)
        _require_choice("condense", "storage", self.storage, Storage)
        fits = self.method != "static-dynamic" or self.storage not in COMPRESSED
        plain = "float32, float16 or uint8 with method static-dynamic, whose memories are no pictures"
        _require("condense", "storage", self.storage, fits, plain)
        _require("condense", "quality", self.quality, 0 <= self.quality <= 100, "between 0 and 100")

    @property
    def insertion_span(self) -> tuple[int, int]:
        """The first iteration with insertion and the first without it again (paper, section 3.3)."""
        return round(self.warmup * self.iterations), self.iterations - round(self.cooldown * self.iterations)


FIXED_BY_METHOD: dict[str, dict[str, Any]] = {
    "prism": {},
    "dm": {"init": "real", "initial_keyframes": 0, "insertion": "never", "budget": ""},
    "static-dynamic": {"init": "real", "insertion": "never", "budget": "", "gradient_decay": 0.0},
}
"""The options that a method does not leave open: without them it would be another one."""


@dataclass(frozen=True)
class EvaluateConfig:
    """Options of `prism evaluate`; the defaults are the paper's schedule."""

    model: Model = "convnet3d"
    """Network to train."""
    width: int = 0
    """Channels of the network's first block; 0 for the published number."""
    hidden: int = 0
    """Hidden size of the recurrent layer of cnn-gru and cnn-lstm; 0 for the published size, which makes \
cnn-lstm take gigabytes."""
    epochs: int = 500
    """Passes over the training clips; the learning rate drops to a tenth halfway."""
    lr: float = 0.01
    """Learning rate of SGD with momentum 0.9 and weight decay 5e-4."""
    batch_size: int = 256
    """Clips per training step."""
    shift: float = 0.0
    """Largest random shift of a training clip in time, down and across, as a share of its extent. The paper's \
schedule has none."""
    seeds: int = 3
    """Networks to train, with seeds seed, seed + 1, …"""
    seed: int = 0
    """First seed."""
    split: Split = "test"
    """Real clips to score on; choose settings on val, report test."""
    protocol: Protocol = "clean"
    """How clips are shown and when networks are scored: `clean` chooses nothing on the clips that it scores; \
`wang2024` is that of Wang et al., with all its quirks, for numbers beside theirs."""
    train_vpc: int = 0
    """With --train: train on this many random clips per class, drawn anew for each seed; 0 for all."""

    def __post_init__(self) -> None:
        _require_choice("evaluate", "model", self.model, Model)
        _require("evaluate", "width", self.width, 0 <= self.width <= 4096, "between 0 and 4096")
        _require("evaluate", "hidden", self.hidden, 0 <= self.hidden <= 65536, "between 0 and 65536")
        _require("evaluate", "epochs", self.epochs, self.epochs >= 1, "at least 1")
        _require("evaluate", "lr", self.lr, 0 < self.lr < MAX_LR, f"positive and below {MAX_LR:g}")
        _require("evaluate", "batch_size", self.batch_size, self.batch_size >= 1, "at least 1")
        _require("evaluate", "shift", self.shift, 0 <= self.shift < 1, "at least 0 and below 1")
        _require("evaluate", "seeds", self.seeds, self.seeds >= 1, "at least 1")
        _require_choice("evaluate", "split", self.split, Split)
        _require_choice("evaluate", "protocol", self.protocol, Protocol)
        is_scored = self.split == "test" or self.protocol == "clean"
        _require("evaluate", "split", self.split, is_scored, f"test with protocol {self.protocol}")
        _require("evaluate", "train_vpc", self.train_vpc, self.train_vpc >= 0, "at least 0")


@dataclass(frozen=True)
class RetrieveConfig:
    """Options of `prism retrieve`; the schedule is that of `prism evaluate`."""

    model: Model = "convnet3d"
    """Network to train."""
    width: int = 0
    """Channels of the network's first block; 0 for the published number."""
    hidden: int = 0
    """Hidden size of the recurrent layer of cnn-gru and cnn-lstm; 0 for the published one."""
    temperature: float = 0.1
    """Temperature of the supervised contrastive loss; a lower one looks at the nearest negatives only."""
    shift: float = 0.125
    """Largest random shift of a training clip in time, down and across, as a share of its extent; 0 leaves \
flips as the only augmentation."""
    epochs: int = 500
    """Passes over the training clips; the learning rate drops to a tenth halfway. 0 scores the untrained \
network: compare with it, it may find more than chance does."""
    lr: float = 0.01
    """Learning rate of SGD with momentum 0.9 and weight decay 5e-4."""
    batch_size: int = 128
    """Clips per training step; each of them is there in two views."""
    seeds: int = 3
    """Networks to train, with seeds seed, seed + 1, …"""
    seed: int = 0
    """First seed."""
    split: QuerySplit = "test"
    """Real clips to ask for; the gallery is always the training clips. Choose settings on val, report test."""
    train_vpc: int = 0
    """With --train: train on this many random clips per class, drawn anew for each seed; 0 for all."""

    def __post_init__(self) -> None:
        _require_choice("retrieve", "model", self.model, Model)
        _require("retrieve", "width", self.width, 0 <= self.width <= 4096, "between 0 and 4096")
        _require("retrieve", "hidden", self.hidden, 0 <= self.hidden <= 65536, "between 0 and 65536")
        _require("retrieve", "temperature", self.temperature, 1e-3 <= self.temperature <= 100, "in 0.001..100")
        _require("retrieve", "shift", self.shift, 0 <= self.shift < 1, "at least 0 and below 1")
        _require("retrieve", "epochs", self.epochs, self.epochs >= 0, "at least 0")
        _require("retrieve", "lr", self.lr, 0 < self.lr < MAX_LR, f"positive and below {MAX_LR:g}")
        _require("retrieve", "batch_size", self.batch_size, self.batch_size >= 2, "at least 2, for a negative")
        _require("retrieve", "seeds", self.seeds, self.seeds >= 1, "at least 1")
        _require_choice("retrieve", "split", self.split, QuerySplit)
        _require("retrieve", "train_vpc", self.train_vpc, self.train_vpc >= 0, "at least 0")


SECTIONS: dict[str, type] = {
    "motion": MotionConfig,
    "ingest": IngestConfig,
    "select": SelectConfig,
    "condense": CondenseConfig,
    "evaluate": EvaluateConfig,
    "retrieve": RetrieveConfig,
}


def as_dict(config: Any) -> dict[str, Any]:
    """The options of a config as plain values, in the order of its fields."""
    return asdict(config)


def nearest(word: str, allowed: list[str]) -> str:
    """` Did you mean 'x'?` for the most similar allowed word, or nothing."""
    found = difflib.get_close_matches(word, allowed, n=1, cutoff=0.5)
    return f" Did you mean '{found[0]}'?" if found else ""


def from_dict(config_type: type[T], section: str, values: Mapping[str, Any]) -> T:
    """Build a config from plain values, as a recipe or a saved artifact holds them.

    Raises:
        ConfigError: a key is unknown (the nearest valid one is named), or a value has the wrong type
            or lies outside its range.
    """
    known = {field.name: field for field in fields(config_type)}  # pyright: ignore[reportArgumentType]
    checked = {}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"unknown key '{section}.{key}'.{nearest_key(section, key, list(known))}")
        default = known[key].default
        if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not type(default):
            kind = type(default).__name__
            raise ConfigError(f"{section}.{key} = {value!r}, but it must be of type {kind}.")
        checked[key] = value
    return config_type(**checked)


def with_options(config_type: type[T], section: str, config: T | None, options: Mapping[str, Any]) -> T:
    """A config (or the defaults, for None) with some options replaced, as the verbs take them in Python.

    Raises:
        ConfigError: like `from_dict`.
    """
    return from_dict(config_type, section, {**as_dict(config or config_type()), **options})


def nearest_key(section: str, key: str, known: list[str]) -> str:
    """Like `nearest`, with the section's name before the key."""
    guess = nearest(key, known)
    return guess.replace("'", f"'{section}.", 1) if guess else ""


def read_recipe(*paths: str | Path) -> dict[str, dict[str, Any]]:
    """Read TOML recipes: a table of options for each verb they name, checked against their configs.

    A recipe may say `extends = "other.toml"`, relative to itself: the tables of the other one, with its own
    options in their place. Several recipes are laid over each other: `read_recipe("hmdb51", "ablations/dm")`.

    Args:
        paths: files, or names of recipes that PRISM ships: `miniucf`, `ablations/dm`. Where two set the same
            option, the later one counts.

    Raises:
        ConfigError: the file is missing or not TOML, a table or key is unknown or out of range, or recipes
            extend each other in a circle.
    """
    recipe: dict[str, dict[str, Any]] = {}
    for path in paths:
        tables = _extended(_find_recipe(path), ())
        for section, values in tables.items():
            if section not in SECTIONS or not isinstance(values, dict):
                guess = nearest(section, list(SECTIONS))
                raise ConfigError(f"unknown table '[{section}]' in recipe '{path}'.{guess}")
        recipe = _overlaid(recipe, tables)
    # Checked as a whole: an option may need another one that stands in a recipe below it.
    for section, values in recipe.items():
        from_dict(SECTIONS[section], section, values)
    return recipe


def shipped_recipes() -> list[str]:
    """The names of the recipes that PRISM ships."""
    return sorted(path.relative_to(RECIPES).with_suffix("").as_posix() for path in RECIPES.rglob("*.toml"))


def _find_recipe(path: str | Path) -> Path:
    name = Path(path).as_posix()
    if name in shipped_recipes() and not Path(path).is_file():
        return RECIPES / f"{name}.toml"
    if Path(path).exists():
        return Path(path)
    raise ConfigError(f"recipe '{path}' does not exist.{nearest(name, shipped_recipes())}")


def _extended(path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in below:
        raise ConfigError(f"recipe '{path}' extends itself in a circle.")
    own = _read_toml(path)
    base = own.pop("extends", None)
    if base is None:
        return own
    if not isinstance(base, str):
        raise ConfigError(f"extends = {base!r} in recipe '{path}', but it must be the path of a recipe.")
    return _overlaid(_extended(path.parent / base, (*below, path.resolve())), own)


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for section, values in above.items():
        both = isinstance(values, dict) and isinstance(merged.get(section), dict)
        merged[section] = {**merged[section], **values} if both else values
    return merged


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path).replace("\r\n", "\n"))
    except FileNotFoundError:
        raise ConfigError(f"recipe '{path}' does not exist.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"recipe '{path}' cannot be read: {error}.") from None
