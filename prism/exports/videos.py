"""The formats: mp4 videos in folders, in tar shards or alone, tensors, and a GIF on which all videos play."""

import io
import math
import os
import re
import tarfile
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import chain, count, pairwise
from pathlib import Path
from typing import ClassVar

import av
import numpy as np
import torch
from av.bitstream import BitStreamFilterContext
from av.codec.codec import UnknownCodecError
from av.error import FFmpegError
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont
from safetensors.torch import save_file
from torch import Tensor

from prism.artifacts.clips import as_levels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import h264
from prism.errors import ArtifactError, ConfigError
from prism.exports.format import Format, Shown
from prism.machine.files import sync_folder, write_synced
from prism.machine.progress import note
from prism.machine.text_io import canonical_json, csv_text
from prism.reports.text import printable

COLOURS = (
    "h264_metadata=video_full_range_flag=1:matrix_coefficients=6:colour_primaries=1:transfer_characteristics=13:"
    "chroma_sample_loc_type=1"
)
"""Full range, the matrix of BT.601; primaries and transfer of sRGB. The packets of a set do not say so."""
EXACT = {"qp": "0", "preset": "veryfast", "threads": "1", "mbtree": "0"}
"""x264 without loss; the last two for the same bytes every time (`artifacts/encodings/h264.py`)."""
LONGEST_NAME = 100
"""Bytes of a folder's name, without the number that may be added; file systems take 255."""


@dataclass(frozen=True)
class Mp4s(Format):
    """Base of the formats that hold videos as mp4."""

    fps: float = 8.0
    quality: int = 65
    lossless: bool = False

    def check(self, condensed: CondensedSet) -> None:
        height, width = condensed.size
        if not self.lossless and not h264.holds_exactly((height, width)):
            what = f"mp4 videos of {height}×{width} pixels, which must be even and 16 or more, would get an edge."
            raise ConfigError(f"{what} Choose --lossless or --to tensors.")

    def mp4(self, condensed: CondensedSet, video: int) -> tuple[bytes, Shown]:
        """The file of a video, its clip, and what other decoders see."""
        clip, rate = condensed.render(torch.tensor([video]))[0], Fraction(self.fps).limit_denominator(1000)
        try:
            if self.lossless:
                data = encoded_exactly(clip, rate)
            else:
                copied = condensed.encoding.stream(video)
                data = muxed(copied or h264.encode(clip.clamp(0, 1) * 255, self.quality), condensed.size, rate)
            return data, (clip, decoded(data))
        except (FFmpegError, h264.UndecodableError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ArtifactError(f"video {video} cannot be written as mp4: {reason}.") from None


@dataclass(frozen=True)
class OneVideo(Mp4s):
    """One video as an mp4 file."""

    is_folder: ClassVar[bool] = False

    video: int = 0

    def check(self, condensed: CondensedSet) -> None:
        super().check(condensed)
        if self.video >= len(condensed):
            raise ConfigError(f"export.video = {self.video}, but the set has {len(condensed)} videos, from 0 on.")

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        data, shown = self.mp4(condensed, self.video)
        write_synced(path, data)
        yield shown


@dataclass(frozen=True)
class VideoFolder(Mp4s):
    """`train/<class>/<id>.mp4`, `metadata.csv` of Hugging Face, and `train_list.txt` of mmaction2."""

    data_files: ClassVar[tuple[str, ...]] = ("train/*/*.mp4", "metadata.csv")

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        folders, rows = folder_names(condensed.classes), []
        for folder in folders:
            (path / "train" / folder).mkdir(parents=True)
        for video, label in enumerate(condensed.labels.tolist()):
            data, shown = self.mp4(condensed, video)
            name = f"train/{folders[label]}/{video:06}.mp4"
            write_synced(path / name, data)
            rows.append((name, label))
            yield shown
        for folder in ("", *folders):
            sync_folder(path / "train" / folder)
        table = csv_text(("file_name", "label"), ((name, condensed.classes[label]) for name, label in rows))
        write_synced(path / "metadata.csv", table.encode())
        write_synced(path / "train_list.txt", "".join(f"{name} {label}\n" for name, label in rows).encode())


def folder_names(classes: tuple[str, ...]) -> list[str]:
    """A name for the folder of each class that every file system and every list takes, all different.

    What is no letter, digit, `-`, `_` or inner `.` becomes `_`; where two names are then the same, whatever their
    case, the label is added, or the first number above it that makes a new name.
    """
    names, taken = list[str](), set[str]()
    for label, name in enumerate(classes):
        cut = re.sub(r"[^\w.-]", "_", name).encode()[:LONGEST_NAME].decode(errors="ignore")
        safe = cut.strip(".") or "_"
        candidates = chain([safe], (f"{safe}_{number}" for number in count(label)))
        names.append(next(name for name in candidates if name.casefold() not in taken))
        taken.add(names[-1].casefold())
    return names


@dataclass(frozen=True)
class WebDataset(Mp4s):
    """Tar shards with `<key>.mp4` and `<key>.cls` of every video; labels are positions in `classes.txt`."""

    data_files: ClassVar[tuple[str, ...]] = ("train-*.tar",)

    shard_videos: int = 1000

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        labels = condensed.labels.tolist()
        for start in range(0, len(labels), self.shard_videos):
            shard = io.BytesIO()
            with tarfile.open(fileobj=shard, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                for video, label in enumerate(labels[start : start + self.shard_videos], start):
                    data, shown = self.mp4(condensed, video)
                    for name, content in ((f"{video:06}.mp4", data), (f"{video:06}.cls", str(label).encode())):
                        # Neither the clock nor the user is written.
                        member = tarfile.TarInfo(name)
                        member.size = len(content)
                        tar.addfile(member, io.BytesIO(content))
                    yield shown
            write_synced(path / f"train-{start // self.shard_videos:06}.tar", shard.getvalue())


@dataclass(frozen=True)
class Tensors(Format):
    """`clips.safetensors`: `clips` (V, T, 3, H, W) float32 in units of [0, 1], and `labels` (V,) int64."""

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        clips = condensed.render()
        about = {"classes": condensed.classes, "flip": condensed.flip, **vars(condensed.normalisation)}
        tensors, metadata = {"clips": clips, "labels": condensed.labels}, {"prism": canonical_json(about)}
        save_file(tensors, path / "clips.safetensors", metadata)
        with (path / "clips.safetensors").open("rb+") as file:
            os.fsync(file.fileno())
        yield from zip(clips, clips, strict=True)


def muxed(packets: Sequence[bytes], size: tuple[int, int], rate: Fraction) -> bytes:
    """An mp4 file of packets of H.264, which stay as they are but for the colours that they announce."""
    places, content = h264.places(packets, size), io.BytesIO()
    with av.open(io.BytesIO(b"".join(packets)), "r", format="h264") as source:
        announcing = BitStreamFilterContext(COLOURS, source.streams.video[0])
        coloured = [bytes(out) for packet in packets for out in announcing.filter(av.Packet(packet))]
    # No picture may be decoded after it is shown, so the clock of decoding starts early.
    delay = max(number - place for number, place in enumerate(places))
    coloured_file = io.BytesIO(b"".join(coloured))
    with av.open(coloured_file, "r", format="h264") as source, av.open(content, "w", format="mp4") as container:
        stream = container.add_stream_from_template(source.streams.video[0])
        stream.time_base = 1 / rate
        for number, (data, place) in enumerate(zip(coloured, places, strict=True)):
            packet = av.Packet(data)
            packet.stream, packet.time_base, packet.duration = stream, 1 / rate, 1
            packet.pts, packet.dts, packet.is_keyframe = place, number - delay, number == 0
            container.mux(packet)
    return content.getvalue()


def encoded_exactly(clip: Tensor, rate: Fraction) -> bytes:
    """An mp4 file of a clip (T, 3, H, W), every 8-bit pixel kept."""
    content = io.BytesIO()
    with av.open(content, "w", format="mp4") as container:
        try:
            stream = container.add_stream("libx264rgb", rate=rate, options=EXACT)
        except UnknownCodecError:
            raise ConfigError("PyAV was built here without libx264rgb. Leave out --lossless.") from None
        stream.height, stream.width = clip.shape[2:]
        stream.pix_fmt = "rgb24"
        for frame in as_levels(clip):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return content.getvalue()


def decoded(data: bytes) -> Tensor:
    """The frames of an mp4 file as FFmpeg shows them: (T, 3, H, W) float32 in units of [0, 1]."""
    with av.open(io.BytesIO(data), "r") as container:
        frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    return torch.from_numpy(frames).permute(0, 3, 1, 2) / 255


SMALLEST_TILE, CAPTION, GAP = 96, 14, 4
"""Pixels: smaller videos are enlarged by a whole factor; height of a caption; distance between tiles."""
MAX_SIDE, MAX_BYTES = 16383, 2**31
"""Pixels of a side, and bytes of all frames in memory, of a sheet that can be looked at."""
MAX_GIF_FPS = 50
"""Browsers show a frame of less than 2/100 s for 10/100 s."""


@dataclass(frozen=True)
class Gif(Format):
    """A sheet of 256 colours on which all videos play, each under the name of its class."""

    is_folder: ClassVar[bool] = False

    fps: float = 8.0

    def check(self, condensed: CondensedSet) -> None:
        rows, columns, (height, width) = _grid(condensed)
        height, width = rows * (height + CAPTION + GAP) + GAP, columns * (width + GAP) + GAP
        if max(height, width) > MAX_SIDE or condensed.num_frames * height * width * 3 > MAX_BYTES:
            what = f"{len(condensed)} videos would be {condensed.num_frames} frames of {height}×{width} pixels"
            raise ConfigError(f"a sheet of {what}, which is too large. Choose --to videofolder.")
        if self.fps > MAX_GIF_FPS:
            raise ConfigError(f"export.fps = {self.fps}, but it must be at most {MAX_GIF_FPS} with format gif.")

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        frames, data = _sheet(condensed), io.BytesIO()
        # One palette for all frames, so that nothing flickers that stands still. Median cut, Pillow's own choice,
        # leaves single pixels of a noisy set 100 levels off; this one 27 at most.
        whole = Image.fromarray(frames.reshape(-1, *frames.shape[2:]))
        how = {"palette": whole.quantize(256, method=Image.Quantize.MAXCOVERAGE), "dither": Image.Dither.NONE}
        first, *others = (Image.fromarray(frame).quantize(**how) for frame in frames)
        # A GIF counts hundredths of a second: the sum up to any frame is off by half of one at most.
        ends = [round(100 * frame / self.fps) for frame in range(condensed.num_frames + 1)]
        durations = [10 * (end - start) for start, end in pairwise(ends)]
        first.save(data, format="GIF", save_all=True, append_images=others, duration=durations, loop=0)
        write_synced(path, data.getvalue())
        yield from ()


def _grid(condensed: CondensedSet) -> tuple[int, int, tuple[int, int]]:
    """Rows and columns of a sheet about as wide as high, and height and width of a video on it."""
    height, width = condensed.size
    factor = math.ceil(SMALLEST_TILE / max(height, width))
    columns = math.ceil(math.sqrt(len(condensed)))
    return math.ceil(len(condensed) / columns), columns, (factor * height, factor * width)


def _sheet(condensed: CondensedSet) -> np.ndarray:
    """The frames of the sheet, (T, H, W, 3) uint8."""
    rows, columns, (height, width) = _grid(condensed)
    paper = Image.new("RGB", (columns * (width + GAP) + GAP, rows * (height + CAPTION + GAP) + GAP), "white")
    writing, captions = ImageDraw.Draw(paper), _captions(condensed.classes)
    places = list[tuple[int, int]]()
    for video, label in enumerate(condensed.labels.tolist()):
        row, column = divmod(video, columns)
        top, left = GAP + row * (height + CAPTION + GAP), GAP + column * (width + GAP)
        places.append((top + CAPTION, left))
        name, font = captions[label]
        while name and font.getlength(name) > width:
            name = name[:-1]
        writing.text((left, top), name, "black", font)
    frames = np.repeat(np.asarray(paper)[None], condensed.num_frames, axis=0)
    for video, (top, left) in enumerate(places):
        levels = as_levels(condensed.render(torch.tensor([video]))[0])
        tile = levels.repeat(height // levels.shape[1], axis=1).repeat(width // levels.shape[2], axis=2)
        frames[:, top : top + height, left : left + width] = tile
    return frames


def _captions(classes: Sequence[str]) -> list[tuple[str, ImageFont.FreeTypeFont]]:
    """The name of each class and the first installed font that has all its letters, or else its number."""
    own = font_manager.findfont("DejaVu Sans")
    # "Last Resort" has a picture of each script in place of its letters.
    fonts = [own, *sorted(font.fname for font in font_manager.fontManager.ttflist if "Last" not in font.name)]
    captions, without = list[tuple[str, ImageFont.FreeTypeFont]](), list[str]()
    for label, name in enumerate(map(printable, classes)):
        font = next((font for font in fonts if set(map(ord, name)) <= _letters(font)), None)
        without += [] if font else [f"{label} for {name}"]
        captions.append((name if font else str(label), ImageFont.truetype(font or own, 11)))
    if without:
        note(f"Caution: no installed font has these letters, so the sheet shows numbers: {', '.join(without)}.")
    return captions


@cache
def _letters(font: str) -> Set[int]:
    try:
        return FT2Font(font).get_charmap().keys()
    except RuntimeError:
        return set()
