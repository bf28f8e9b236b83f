"""Codecs: one packet for each picture, the same bytes every time, and nothing decoded that is not as announced."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from prism.artifacts.encodings.codecs import AV1, CODECS, H264, UndecodableError, _to_levels, _to_planes
from prism.errors import ConfigError

every_codec = pytest.mark.parametrize("name", CODECS)


def pictures(num: int = 5, size: tuple[int, int] = (18, 24), seed: int = 0) -> torch.Tensor:
    """Smooth pictures (num, 3, H, W) that change slowly, in levels of 0..255."""
    coarse = torch.rand(1, 3, 3, 4, 4, generator=torch.Generator().manual_seed(seed)) * 255
    return (
        F.interpolate(coarse, size=(num, *size), mode="trilinear", align_corners=True)[0]
        .transpose(0, 1)
        .contiguous()
    )


@every_codec
@pytest.mark.parametrize("quality", [0, 50, 100])
@given(st.integers(1, 12), st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_every_picture_is_one_packet_and_comes_back_in_its_size_and_place(name, quality, num, size):
    levels = pictures(num, size)
    packets = CODECS[name].encode(levels, quality)
    assert len(packets) == num
    decoded = CODECS[name].decode(packets, size)
    assert decoded.shape == levels.shape
    assert 0 <= decoded.min() <= decoded.max() <= 255


@every_codec
def test_a_higher_quality_takes_more_bytes_and_errs_less(name):
    levels = pictures(8, (32, 32))
    levels += 20 * torch.randn(levels.shape, generator=torch.Generator().manual_seed(1))
    levels.clamp_(0, 255)
    lengths, errors = [], []
    for quality in (0, 25, 50, 75, 100):
        packets = CODECS[name].encode(levels, quality)
        lengths.append(sum(map(len, packets)))
        errors.append(float((CODECS[name].decode(packets, (32, 32)) - levels).abs().mean()))
    assert lengths == sorted(lengths)
    assert errors == sorted(errors, reverse=True)


@every_codec
def test_pictures_come_back_in_the_order_of_time_whatever_the_order_of_decoding(name):
    levels = pictures(16, (32, 32))
    decoded = CODECS[name].decode(CODECS[name].encode(levels, 90), (32, 32))
    distance = (decoded[:, None] - levels[None]).flatten(2).abs().mean(dim=2)
    assert distance.argmin(dim=1).tolist() == list(range(16))
    assert distance.diagonal().max() < 4


ENCODE = """
import sys, torch
from prism.artifacts.encodings.codecs import CODECS
torch.set_num_threads(int(sys.argv[1]))
levels = torch.arange(6 * 3 * 40 * 36).view(6, 3, 40, 36).mul(37).remainder(256).float()
print([b"".join(codec.encode(levels, 40)).hex() for codec in CODECS.values()])
"""


def test_the_packets_are_the_same_in_every_process_and_with_any_number_of_threads():
    root = str(Path(__file__).parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", ENCODE, threads],
            env={**os.environ, "PYTHONPATH": root, "MALLOC_PERTURB_": perturb},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for threads, perturb in (("1", "0"), ("2", "165"))
    }
    assert len(outputs) == 1


@every_codec
def test_packets_say_nothing_of_the_encoder(name):
    content = b"".join(CODECS[name].encode(pictures(), 50)).lower()
    assert not [word for word in (b"x264", b"svt", b"lavc", b"options", b"exif") if word in content]


@given(st.integers(0, 255))
def test_grey_passes_through_luma_and_chroma_unchanged(grey):
    levels = torch.full((1, 3, 18, 16), float(grey))
    torch.testing.assert_close(_to_levels(_to_planes(levels)), levels, atol=1e-3, rtol=0)


@given(st.integers(0, 1000))
def test_a_picture_of_one_colour_errs_by_two_levels_at_most(seed):
    colour = torch.randint(0, 256, (1, 3, 1, 1), generator=torch.Generator().manual_seed(seed)).float()
    levels = colour.expand(1, 3, 18, 16)
    assert (_to_levels(_to_planes(levels)) - levels).abs().max() <= 2


# What a stranger may send.


def refusal(name: str, packets: list[bytes], size: tuple[int, int] = (18, 24)) -> str:
    with pytest.raises(UndecodableError) as caught:
        CODECS[name].decode(packets, size)
    return str(caught.value)


@every_codec
@pytest.mark.parametrize("size", [(16, 24), (18, 26), (24, 18)])
def test_pictures_of_another_size_are_refused(name, size):
    assert refusal(name, CODECS[name].encode(pictures(), 50), size)


@pytest.mark.parametrize("name", ["h264", "av1"])
def test_no_picture_is_made_that_is_far_larger_than_announced(name):
    """The decoder itself refuses, before it has one: it is not our comparison that says so."""
    assert "FFmpeg says" in refusal(name, CODECS[name].encode(pictures(2, (512, 512)), 0))


def test_a_still_is_measured_before_pillow_sees_it(monkeypatch):
    packet = bytearray(CODECS["webp"].encode(pictures(1), 50)[0])
    packet[6:10] = b"\xff\x3f\xff\x3f"
    monkeypatch.setattr("PIL.Image.open", None)
    assert refusal("webp", [bytes(packet)]) == "a picture has 16383×16383 pixels, not 18×24"


@pytest.mark.parametrize("name", ["h264", "av1"])
def test_fewer_or_more_pictures_than_packets_are_refused(name):
    packets = CODECS[name].encode(pictures(6), 50)
    assert refusal(name, [b"".join(packets)])
    assert refusal(name, [*packets, packets[-1][:0] or b"\0"])


def test_a_packet_that_holds_many_frames_is_refused_before_it_is_decoded(monkeypatch):
    packets = AV1.encode(pictures(6), 50)
    monkeypatch.setattr("av.CodecContext.create", None)
    assert "frames for 6 pictures" in refusal("av1", [packets[0] * 40, *packets[1:]])


@every_codec
@pytest.mark.parametrize("damage", [b"", b"\0", b"\xff" * 60, b"\0" * 60, b"\0\0\1\x67" * 20, b"\x12\0" * 30])
def test_packets_of_anything_else_are_refused(name, damage):
    packets = CODECS[name].encode(pictures(), 50)
    assert refusal(name, [damage, *packets[1:]])
    assert refusal(name, [damage] * 5)


@every_codec
def test_a_packet_cut_short_is_refused_or_gives_pictures_but_nothing_else_happens(name):
    packets = CODECS[name].encode(pictures(), 50)
    for length in range(0, len(packets[0]), 5):
        try:
            decoded = CODECS[name].decode([packets[0][:length], *packets[1:]], (18, 24))
        except UndecodableError:
            continue
        assert decoded.shape == (5, 3, 18, 24)


def test_what_an_encoder_cannot_do_is_one_sentence():
    noise = (torch.rand(33, 3, 16, 16, generator=torch.Generator().manual_seed(0)) > 0.5) * 255.0
    with pytest.raises(ConfigError, match=r"^libsvtav1 cannot encode 16×16 pixels at quality 100: .*\. Choose"):
        AV1.encode(noise, 100)


def test_a_missing_encoder_or_decoder_is_named():
    with pytest.raises(ConfigError, match=r"PyAV was built here without the encoder libnone\. Choose another"):
        replace(H264, encoder="libnone").require_encoder()
    with pytest.raises(ConfigError, match=r"PyAV was built here without the decoder nothing\. Choose another"):
        replace(H264, decoder="nothing").decode([b"\0"], (8, 8))
