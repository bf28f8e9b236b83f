"""The formats and their base: mp4 videos in folders or tar shards, tensors, and a GIF on which all videos play."""

import io
import math
import re
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, get_args

import av
import numpy as np
import torch
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont
from safetensors.torch import save
from torch import Tensor

from prism.artifacts.clips import as_levels, as_pixels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.artifacts.encodings.sparse import UInt8
from prism.artifacts.store import ClipStore, Split
from prism.errors import ConfigError
from prism.machine.files import write_synced
from prism.machine.progress import note
from prism.machine.text_io import canonical_json, printable

Shown = tuple[Tensor, Tensor]
"""A clip as the set renders it, and as readers of the export see it: (T, 3, H, W) float32 in units of [0, 1]."""


class Format(ABC):
    """Base of all export formats. This custom one keeps every video as a NumPy file:

        @dataclass(frozen=True)
        class Arrays(Format):
            def write(self, condensed, path):
                for video in range(len(condensed)):
                    clip = condensed.render(torch.tensor([video]))[0]
                    np.save(path / f"{video}.npy", clip.numpy())
                    yield clip, clip

        prism.export(condensed, "arrays", to=Arrays())

    The fields of a format are its options; fields `fps`, `quality` and `lossless` get the values of the verb's
    options. On the command line this format is `--to mymodule:Arrays`.

    Attributes:
        is_folder: whether the output is the folder; else it is the one file in the folder.
        data_files: patterns of the files in the folder that Hugging Face's `datasets` reads.
    """

    is_folder: ClassVar[bool] = True
    data_files: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        """Write the videos of a set.

        Args:
            condensed: the set; every take is a video of its own (`CondensedSet.apart`).
            path: an empty folder; if `is_folder` is false, exactly one file must be written into it.

        Yields:
            For each video its clip and the clip that a reader will see, from which the loss is measured; nothing
            for a picture, from which no clips are read.
        """


SHARD_VIDEOS = 1000


@dataclass(frozen=True)
class Mp4s(Format):
    """Base of the formats that hold videos as mp4."""

    fps: float = 8.0
    quality: int = 65
    lossless: bool = False

    def mp4(self, condensed: CondensedSet, video: int) -> tuple[bytes, Shown]:
        height, width = condensed.size
        if not self.lossless and (height % 2 or width % 2):
            what = f"mp4 videos need even sides, not {height}×{width} pixels."
            raise ConfigError(f"{what} Choose --lossless or --to tensors.")
        clip, rate = condensed.render(torch.tensor([video]))[0], Fraction(self.fps).limit_denominator(1000)
        data = encoded(clip, rate, None if self.lossless else self.quality)
        return data, (clip, decoded(data))


@dataclass(frozen=True)
class VideoFolder(Mp4s):
    """`train/<class>/<id>.mp4`, and `metadata.jsonl` of Hugging Face."""

    # JSON lines, because in a CSV `datasets` would read the class "01" as 1, and "None" as missing.
    data_files: ClassVar[tuple[str, ...]] = ("train/*/*.mp4", "metadata.jsonl")

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        folders, rows = folder_names(condensed.classes), []
        if folders != sorted(folders):
            note("Caution: readers that number the folders by name give classes other labels than classes.txt.")
        for folder in folders:
            (path / "train" / folder).mkdir(parents=True)
        for video, label in enumerate(condensed.labels.tolist()):
            data, shown = self.mp4(condensed, video)
            name = f"train/{folders[label]}/{video:06}.mp4"
            write_synced(path / name, data)
            rows.append(f"{canonical_json({'file_name': name, 'label': condensed.classes[label]})}\n")
            yield shown
        write_synced(path / "metadata.jsonl", "".join(rows).encode())


def folder_names(classes: tuple[str, ...]) -> list[str]:
    """Folder names of the classes that every file system accepts, all different without regard to case."""
    names = list[str]()
    for label, name in enumerate(classes):
        # File systems accept 255 bytes.
        safe = re.sub(r"[^\w.-]", "_", name).encode()[:100].decode(errors="ignore").strip(".") or "_"
        while safe.casefold() in map(str.casefold, names):
            safe += f"_{label}"
        names.append(safe)
    return names


@dataclass(frozen=True)
class WebDataset(Mp4s):
    """Tar shards with `<key>.mp4` and `<key>.cls` of every video; labels are positions in `classes.txt`."""

    data_files: ClassVar[tuple[str, ...]] = ("train-*.tar",)

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        labels = condensed.labels.tolist()
        for start in range(0, len(labels), SHARD_VIDEOS):
            shard = io.BytesIO()
            with tarfile.open(fileobj=shard, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                for video, label in enumerate(labels[start : start + SHARD_VIDEOS], start):
                    data, shown = self.mp4(condensed, video)
                    for name, content in ((f"{video:06}.mp4", data), (f"{video:06}.cls", str(label).encode())):
                        member = tarfile.TarInfo(name)
                        member.size = len(content)
                        tar.addfile(member, io.BytesIO(content))
                    yield shown
            write_synced(path / f"train-{start // SHARD_VIDEOS:06}.tar", shard.getvalue())


@dataclass(frozen=True)
class Tensors(Format):
    """`clips.safetensors`: `clips` (V, T, 3, H, W) float32 in units of [0, 1], and `labels` (V,) int64."""

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        clips = condensed.render().contiguous()
        about = {"classes": condensed.classes, "flip": condensed.flip, **vars(condensed.normalisation)}
        tensors, metadata = {"clips": clips, "labels": condensed.labels}, {"prism": canonical_json(about)}
        write_synced(path / "clips.safetensors", save(tensors, metadata))
        yield from zip(clips, clips, strict=True)


RATE = 8
"""Frames per second that x264 assumes for every video, as it spends more bytes on frames that are shown longer."""


def encoded(clip: Tensor, rate: Fraction, quality: int | None) -> bytes:
    """An mp4 file of a clip (T, 3, H, W) at a quality in 0..100; None keeps every 8-bit pixel."""
    content, colours = io.BytesIO(), dict[str, int]()
    how = {"qp": "0"} if quality is None else {"crf": f"{51 - 0.51 * quality:g}"}
    # Options that give the same bytes every time; `artifacts/encodings/sparse.py` says why.
    how |= {"preset": "slow", "threads": "1", "mbtree": "0"}
    with av.open(content, "w", format="mp4") as container:
        stream = container.add_stream("libx264rgb" if quality is None else "libx264", rate=RATE, options=how)
        stream.time_base = 1 / rate
        stream.pix_fmt, (stream.height, stream.width) = "rgb24", clip.shape[2:]
        if quality is not None:
            stream.pix_fmt, stream.color_range, stream.colorspace = "yuv420p", ColorRange.JPEG, Colorspace.ITU601
            stream.color_primaries, stream.color_trc = ColorPrimaries.BT709, ColorTrc.IEC61966_2_1
            colours = {"dst_colorspace": Colorspace.ITU601, "dst_color_range": ColorRange.JPEG}
        packets = list[av.Packet]()
        for levels in as_levels(clip):
            frame = av.VideoFrame.from_ndarray(levels, format="rgb24")
            packets += stream.encode(frame.reformat(format=stream.pix_fmt, **colours))
        for packet in [*packets, *stream.encode()]:
            packet.time_base, packet.duration = 1 / rate, 1
            container.mux(packet)
    return content.getvalue()


def decoded(data: bytes) -> Tensor:
    """The frames of an mp4 file as FFmpeg shows them: (T, 3, H, W) float32 in units of [0, 1]."""
    with av.open(io.BytesIO(data), "r") as container:
        frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    return torch.from_numpy(frames).permute(0, 3, 1, 2) / 255


FONT, SMALLEST_TILE, CAPTION, GAP = "DejaVu Sans", 96, 14, 4
"""Pixels: side below which videos are enlarged by a whole factor; height of a caption; gap between tiles."""
PALETTE_PIXELS = 130_000
"""Most pixels from which the palette is made: all pixels of 101 classes would take many minutes."""


@dataclass(frozen=True)
class Gif(Format):
    """A sheet of 256 colours on which all videos play, each under the name of its class."""

    is_folder: ClassVar[bool] = False

    fps: float = 8.0

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        frames, data = _sheet(condensed), io.BytesIO()
        # One palette for all frames, so that still parts do not flicker; by median cut more colours are far off.
        pixels = frames.reshape(-1, 3)
        some = Image.fromarray(pixels[np.random.default_rng(0).integers(len(pixels), size=(1, PALETTE_PIXELS))])
        how = {"palette": some.quantize(256, method=Image.Quantize.MAXCOVERAGE), "dither": Image.Dither.NONE}
        first, *others = (Image.fromarray(frame).quantize(**how) for frame in frames)
        # A GIF counts hundredths of a second; rounding the sums keeps every frame within half a hundredth.
        ends = [round(100 * frame / self.fps) for frame in range(condensed.num_frames + 1)]
        durations = [10 * (end - start) for start, end in pairwise(ends)]
        first.save(data, format="GIF", save_all=True, append_images=others, duration=durations, loop=0)
        write_synced(path / "sheet.gif", data.getvalue())
        yield from ()


def sheet_of(store: ClipStore, clips: int) -> CondensedSet:
    """A set of up to `clips` evenly spread clips of each class and split of a store, with both as class name."""
    names, counts, parts, captions = list[str](), list[int](), list[Encoding](), _captions(store.classes)
    for split in filter(store.positions, get_args(Split)):
        real = store.clips(split)
        for label, caption in enumerate(captions):
            names.append(f"{split}, {caption}")
            every = (real.labels == label).nonzero().flatten()
            spread = torch.linspace(0, len(every) - 1, min(clips, len(every))).round().long()
            counts.append(len(spread))
            if len(spread):
                # Class by class, because all clips as floats would take twenty times their bytes.
                parts.append(UInt8().with_frames(as_pixels(real.frames[every[spread]])))
    labels, encoding = torch.arange(len(names)).repeat_interleave(torch.tensor(counts)), parts[0].join(parts)
    return CondensedSet(encoding, labels, tuple(names), store.normalisation, store.flip, {})


def _sheet(condensed: CondensedSet) -> np.ndarray:
    """The frames of a sheet about as wide as high, (T, H, W, 3) uint8."""
    tiles, font, captions = [], ImageFont.truetype(font_manager.findfont(FONT), 11), _captions(condensed.classes)
    for video, label in enumerate(condensed.labels.tolist()):
        clip = as_levels(condensed.render(torch.tensor([video]))[0])
        factor = math.ceil(SMALLEST_TILE / max(clip.shape[1:3]))
        clip = clip.repeat(factor, axis=1).repeat(factor, axis=2)
        height, width = clip.shape[1:3]
        paper = Image.new("RGB", (width + GAP, CAPTION + height + GAP), "white")
        caption = captions[label][:width]
        while len(caption) > 1 and font.getlength(caption) > width:
            caption = caption.removesuffix("…")[:-1] + "…"
        ImageDraw.Draw(paper).text((0, 0), caption, "black", font)
        tiles.append(np.repeat(np.asarray(paper)[None], len(clip), axis=0))
        tiles[-1][:, CAPTION : CAPTION + height, :width] = clip
    columns = math.ceil(math.sqrt(len(tiles)))
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % columns)
    rows = [np.concatenate(tiles[start : start + columns], axis=2) for start in range(0, len(tiles), columns)]
    return np.concatenate(rows, axis=1)


def _captions(classes: Sequence[str]) -> list[str]:
    """The name of each class, or its number if the font lacks a letter of the name."""
    letters = FT2Font(font_manager.findfont(FONT)).get_charmap().keys()
    return [n if set(map(ord, n)) <= letters else f"#{label}" for label, n in enumerate(map(printable, classes))]
