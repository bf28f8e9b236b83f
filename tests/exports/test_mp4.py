"""Videos as mp4: streams of a set are copied, colours are told, and nothing is lost where that is asked for."""

import io
import math
import re

import av
import pytest
import torch

from prism.artifacts.clips import Normalisation
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import h264
from prism.artifacts.encodings.sparse import H264, Float32, UInt8
from prism.errors import ArtifactError, ConfigError
from prism.exports.export import export
from prism.exports.videos import decoded
from prism.selection.select import select

COLOURS = torch.tensor([[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.5, 0.7]])


def flat(storage, size: int = 32, scale: int = 1) -> CondensedSet:
    """A video of each colour, which changes from frame to frame."""
    frames = COLOURS.view(-1, 1, 3, 1, 1) * torch.tensor([1, 0.8, 0.9, 0.7, 1]).view(1, -1, 1, 1, 1)
    frames = frames.expand(-1, -1, -1, size, size)
    encoding = storage.with_frames(frames, torch.ones(frames.shape[:2], dtype=torch.bool), scale)
    names = tuple(f"colour{label}" for label in range(len(COLOURS)))
    normalisation = Normalisation((0.5,) * 3, (0.25,) * 3)
    return CondensedSet(encoding, torch.arange(len(COLOURS)), names, normalisation, True)


def units(data: bytes) -> list[bytes]:
    """The NAL units of a byte stream."""
    return re.split(b"\0*\0\0\1", data)[1:]


@pytest.mark.parametrize("storage", [UInt8(), H264(quality=90)], ids=["encoded", "copied"])
def test_other_decoders_show_the_same_colours(storage, tmp_path):
    condensed = flat(storage)
    for video in range(len(condensed)):
        export(condensed, tmp_path / f"{video}.mp4", to="mp4", video=video)
        data = (tmp_path / f"{video}.mp4").read_bytes()
        error = 255 * (decoded(data) - condensed.render(torch.tensor([video]))[0]).mean(dim=(2, 3))
        # A decoder that took full range for limited range, or another matrix, would be 16 levels off.
        assert float(error.abs().max()) < 3
        with av.open(io.BytesIO(data)) as container:
            told = container.streams.video[0].codec_context
            assert (told.color_range, told.colorspace, told.color_primaries, told.color_trc) == (2, 6, 1, 13)


def test_a_stream_is_copied_picture_by_picture_in_the_order_of_time(store, tmp_path):
    condensed = select(store, storage="h264", vpc=1)
    packets = condensed.encoding.stream(1)
    assert h264.places(packets, condensed.size) != list(range(len(packets))), "no picture is out of order here"
    export(condensed, tmp_path / "out.mp4", to="mp4", video=1, quality=0)
    data = (tmp_path / "out.mp4").read_bytes()
    pictures = [unit for packet in packets for unit in units(packet) if unit[0] & 31 in (1, 5)]
    assert len(pictures) >= len(packets)
    assert all(picture in data for picture in pictures)
    frames = condensed.render(torch.tensor([1]))[0]
    distances = torch.cdist(decoded(data).flatten(1), frames.flatten(1))
    assert distances.argmin(dim=1).tolist() == list(range(len(frames)))


@pytest.mark.parametrize(
    ("frames", "mask", "scale"),
    [
        (torch.full((1, 4, 3, 32, 32), 2.0), [1, 1, 1, 1], 1),
        (torch.rand(1, 4, 3, 32, 32), [1, 0, 1, 1], 1),
        (torch.rand(1, 4, 3, 16, 16), [1, 1, 1, 1], 2),
        (torch.rand(1, 4, 3, 31, 32), [1, 1, 1, 1], 1),
    ],
    ids=["another range", "frames between", "smaller key-frames", "an edge"],
)
def test_a_stream_that_is_not_the_clip_is_not_copied(frames, mask, scale):
    encoding = H264().with_frames(frames, torch.tensor([mask], dtype=torch.bool), scale)
    assert encoding.stream(0) is None


def test_without_loss_every_8_bit_pixel_is_kept_whatever_the_size(make_store, tmp_path):
    condensed = select(make_store(size=(19, 21)), vpc=2)
    made = export(condensed, tmp_path / "out", lossless=True)
    assert made.loss.psnr == math.inf
    shown = [decoded(path.read_bytes()) for path in sorted((tmp_path / "out").rglob("*.mp4"))]
    assert torch.equal((255 * torch.stack(shown)).round(), (255 * condensed.render()).round())


def test_an_edge_is_refused_with_what_to_do(make_store, tmp_path):
    condensed = select(make_store(size=(48, 31)))
    for to in ("videofolder", "webdataset", "mp4"):
        with pytest.raises(ConfigError, match=r"48×31 pixels.*an edge\. Choose --lossless or --to tensors"):
            export(condensed, tmp_path / "out", to=to)
    assert list(tmp_path.iterdir()) == []


def test_values_outside_the_range_of_pixels_are_clipped_and_counted(tmp_path):
    frames = torch.linspace(-0.5, 1.5, 32).expand(2, 4, 3, 32, 32)
    encoding = Float32().with_frames(frames, torch.ones(2, 4, dtype=torch.bool))
    normalisation = Normalisation((0.5,) * 3, (0.25,) * 3)
    condensed = CondensedSet(encoding, torch.tensor([0, 1]), ("a", "b"), normalisation, True)
    made = export(condensed, tmp_path / "out", lossless=True)
    assert made.loss.num_outside / made.loss.num_values == pytest.approx(0.5)
    lost = (frames - frames.clamp(0, 1)).square().mean()
    assert made.loss.psnr == pytest.approx(-10 * math.log10(lost), abs=0.1)
    assert "50 % of these values lie outside 0..1 and are clipped." in str(made)
    assert export(condensed, tmp_path / "tensors", to="tensors").loss.psnr == math.inf


def test_packets_that_hold_something_else_are_refused_in_one_sentence(tmp_path):
    condensed = flat(H264())
    condensed.encoding.tensors["packets"][40:] = 0
    with pytest.raises(ArtifactError, match=r"video 0 cannot be decoded as h264: .*\.$"):
        export(condensed, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_places_of_pictures_want_one_for_each_packet():
    (packets,) = [flat(H264()).encoding.stream(5)]
    assert sorted(h264.places(packets, (32, 32))) == list(range(5))
    with pytest.raises(h264.UndecodableError):
        h264.places([packets[0], packets[0] + packets[1], b"\0\0\1\x09\x10"], (32, 32))
