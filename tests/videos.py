"""Tiny videos for tests: every frame shows its own number, as eight bright or dark blocks."""

import os
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

SIZE = 64
HIDDEN = {"auto-alt-ref": "1", "lag-in-frames": "16"}
KINDS: dict[str, tuple[str, str, dict[str, str]]] = {
    "h264 with B-frames": ("a.mp4", "libx264", {"bf": "3", "g": "12", "preset": "veryfast"}),
    "h264 with open groups": ("b.mkv", "libx264", {"bf": "3", "g": "8", "x264-params": "open-gop=1:keyint=8"}),
    "h264 of a single key frame": ("c.mov", "libx264", {"bf": "2", "g": "1000", "preset": "ultrafast"}),
    "h265": ("d.mp4", "libx265", {"x265-params": "log-level=none:keyint=10", "preset": "ultrafast"}),
    "mpeg4 avi with B-frames": ("e.avi", "mpeg4", {"bf": "2", "g": "12", "b": "2000000"}),
    "mpeg4 avi": ("f.avi", "mpeg4", {"g": "12", "b": "2000000"}),
    "vp8 with hidden frames": ("g.webm", "libvpx", HIDDEN | {"b": "800000"}),
    "vp9 with hidden frames": ("h.webm", "libvpx-vp9", HIDDEN | {"cpu-used": "8"}),
    "motion jpeg": ("i.mov", "mjpeg", {"strict": "unofficial"}),
    "h264 raw": ("j.h264", "libx264", {"bf": "3", "g": "12"}),
    "h264 ts with open groups": ("k.ts", "libx264", {"bf": "3", "x264-params": "open-gop=1:keyint=8"}),
    "h264 flv": ("l.flv", "libx264", {"bf": "2", "g": "12"}),
    "mpeg1 program stream": ("m.mpg", "mpeg1video", {"bf": "2", "g": "12", "b": "2000000"}),
    "mpeg2 program stream": ("n.vob", "mpeg2video", {"bf": "2", "g": "12", "b": "2000000"}),
    "mpeg4 3gp": ("o.3gp", "mpeg4", {"g": "12", "b": "2000000"}),
    "mpeg4 with B-frames": ("p.m4v", "mpeg4", {"bf": "2", "g": "12", "b": "2000000"}),
    "wmv": ("q.wmv", "wmv2", {"g": "12", "b": "2000000"}),
    "gif": ("r.gif", "gif", {}),
    "av1": ("s.mp4", "libsvtav1", {"preset": "10", "g": "12"}),
}
"""Containers and codecs that a data set may mix: file name, encoder, encoder options."""


def numbered(number: int, height: int = SIZE, width: int = SIZE) -> np.ndarray:
    """(H, W, 3) uint8: a frame that shows a number below 256."""
    bits = np.array([number >> bit & 1 for bit in range(8)], np.uint8).reshape(2, 4)
    blocks = 40 + 170 * np.kron(bits, np.ones((height // 2, width // 4), np.uint8))
    return np.repeat(blocks[..., None], 3, axis=2)


def shown_number(frame: np.ndarray) -> int:
    """The number that a square (3, H, W) frame shows, of whatever size."""
    size = frame.shape[-1]
    rows, columns = [size // 4, 3 * size // 4], [size * (2 * k + 1) // 8 for k in range(4)]
    bits = frame.mean(axis=0)[np.ix_(rows, columns)] > 125
    return sum(1 << k for k, bit in enumerate(bits.ravel()) if bit)


def write_numbered(
    path: Path,
    num_frames: int,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    *,
    first: int = 0,
    container: dict[str, str] | None = None,
    turn: tuple[int, bool] | None = None,
) -> Path:
    """Encode frames that show `first`, `first + 1`, … (modulo 256).

    With `turn`, degrees counter-clockwise and whether mirrored left to right after that, frames are stored so that
    they are upright when they are turned, and the file says by how much.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", options=container or {}) as output:
        stream = output.add_stream(codec, rate=25, options=options or {"preset": "ultrafast", "g": "12"})
        stream.height = stream.width = SIZE
        stream.pix_fmt = {"mjpeg": "yuvj420p", "gif": "gray"}.get(codec, "yuv420p")
        if turn:
            stream.set_display_rotation(turn[0], hflip=turn[1])
        for number in range(first, first + num_frames):
            pixels = numbered(number % 256)
            if turn:
                pixels = np.rot90(pixels[:, ::-1] if turn[1] else pixels, -turn[0] // 90).copy()
            output.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        output.mux(stream.encode())
    if codec == "libsvtav1" and hasattr(os, "sched_setscheduler"):  # As root it makes this a real-time thread.
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return path


def write_fields(path: Path, num_frames: int, together: bool, is_parted: Callable[[int], bool]) -> Path:
    """Write H.264 that no encoder at hand makes: frames that are coded as two pictures, one of every second row.

    The samples are stored as they are (I_PCM), in groups of 12 frames that are coded in another order than shown.

    Args:
        path: the file, whose suffix names the container.
        num_frames: frames, which show 0, 1, …, at 25 a second.
        together: whether the two pictures of a frame share a packet.
        is_parted: whether the frame of a number is coded as two pictures.
    """
    sps = f"{77:08b}{0:08b}{30:08b}" + _golomb(0, 0, 0, 4, 2) + "0" + _golomb(3, 1) + "0010" + "1" + "00000000"
    pps = _golomb(0, 0) + "00" + _golomb(0, 0, 0) + "000" + _golomb(0, 0, 0) + "100"
    sets = _nal(0x67, sps + "11" + _golomb(0, 0, 10, 10, 1, 2) + "1") + _nal(0x68, pps + "1")
    packets = []
    for start in range(0, num_frames, 12):
        for at, number in enumerate((0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 11)):
            rows = numbered(start + number)[..., 0]
            fields = [rows[0::2], rows[1::2]] if is_parted(start + number) else [rows]
            pictures = []
            for parity, field in enumerate(fields):
                is_first = at == parity == 0
                bits = _golomb(0, 7, 0) + f"{at:04b}" + ("0" if len(fields) == 1 else f"1{parity}")
                bits += (_golomb(start // 12) if is_first else "") + f"{2 * number + parity:08b}"
                bits += ("00" if is_first else "0") + _golomb(0, 1)
                height, width = field.shape
                blocks = [field[y : y + 16, x : x + 16] for y in range(0, height, 16) for x in range(0, width, 16)]
                samples = [block.tobytes() + bytes([128] * 128) for block in blocks]
                pictures.append(sets * is_first + _nal(0x65 if is_first else 0x61, bits, samples))
            halves = [b"".join(pictures)] if together else pictures
            for half, data in enumerate(halves):
                packets.append((data, 2 * (start + at) + half, 2 * (start + number) + half + 2, 2 // len(halves)))
    path.with_suffix(".h264").write_bytes(b"".join(data for data, *_ in packets))
    with av.open(str(path.with_suffix(".h264"))) as raw, av.open(str(path), "w") as output:
        stream = output.add_stream_from_template(raw.streams.video[0])
        for data, dts, pts, duration in packets:
            packet = av.Packet(data)
            packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, 50), data.startswith(sets)
            packet.dts, packet.pts, packet.duration = dts, dts if path.suffix == ".avi" else pts, duration
            output.mux(packet)
    return path


def _golomb(*numbers: int) -> str:
    return "".join(f"{number + 1:b}".zfill(2 * (number + 1).bit_length() - 1) for number in numbers)


def _nal(header: int, bits: str, macroblocks: Iterable[bytes] = ()) -> bytes:
    """A unit of H.264: bits, then macroblocks of plain samples, each after its type and filled to whole bytes."""
    data = b""
    for samples in macroblocks:
        bits += _golomb(25)
        data += int(bits + "0" * (-len(bits) % 8), 2).to_bytes(-(-len(bits) // 8)) + samples
        bits = ""
    bits = bits or "1"
    data += int(bits + "0" * (-len(bits) % 8), 2).to_bytes(-(-len(bits) // 8))
    return b"\0\0\0\1" + bytes([header]) + re.sub(rb"\0\0(?=[\0-\3])", b"\0\0\3", data)


def write_audio(path: Path) -> Path:
    """Encode a moment of silence, without any picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        stream.layout = "mono"
        for at in range(0, 8 * 1024, 1024):
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            silence.sample_rate, silence.pts = 16000, at
            container.mux(stream.encode(silence))
        container.mux(stream.encode())
    return path


def write_images(folder: Path, num_frames: int, suffix: str = ".png") -> Path:
    """Write a folder of frames named 1, 2, … 10, …, which show 0, 1, …"""
    from PIL import Image

    folder.mkdir(parents=True)
    for number in range(num_frames):
        Image.fromarray(numbered(number)).save(folder / f"frame{number + 1}{suffix}")
    return folder


def write_classes(root: Path, videos: int = 4, num_frames: int = 20) -> Path:
    """Write `root/<class>/v<k>.mp4` for the classes jump and walk; every video shows other numbers."""
    for c, label in enumerate(("jump", "walk")):
        for k in range(videos):
            write_numbered(root / label / f"v{k}.mp4", num_frames, first=50 * c + 7 * k)
    return root
