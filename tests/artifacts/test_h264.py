"""H.264: one packet for each picture, the same bytes every time, and nothing decoded that is not as announced."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from settings import refusal_of, threads
from torch.nn import functional as F

from prism.artifacts.encodings import sparse
from prism.artifacts.encodings.sparse import compress, decompress
from prism.errors import ArtifactError, ConfigError


def pictures(num: int = 5, size: tuple[int, int] = (18, 24), seed: int = 0) -> torch.Tensor:
    """Smooth pictures (num, 3, H, W) that change slowly, in levels of 0..255."""
    coarse = torch.rand(1, 3, 3, 4, 4, generator=torch.Generator().manual_seed(seed)) * 255
    smooth = F.interpolate(coarse, size=(num, *size), mode="trilinear", align_corners=True)[0]
    return smooth.transpose(0, 1).contiguous()


@pytest.mark.parametrize("quality", [0, 50, 100])
@given(st.integers(1, 12), st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_every_picture_is_one_packet_and_comes_back_in_its_size_and_place(quality, num, size):
    levels = pictures(num, size)
    packets = compress(levels, quality)
    decoded = decompress(packets, size)
    assert (len(packets), decoded.shape) == (num, levels.shape)
    assert 0 <= decoded.min() <= decoded.max() <= 255


def test_pictures_come_back_in_the_order_of_time_whatever_the_order_of_decoding():
    levels = pictures(16, (32, 32))
    decoded = decompress(compress(levels, 90), (32, 32))
    distance = (decoded[:, None] - levels[None]).flatten(2).abs().mean(dim=2)
    assert distance.argmin(dim=1).tolist() == list(range(16))
    assert distance.diagonal().max() < 4


def test_the_packets_are_the_same_with_any_number_of_threads():
    several = []
    for number in (1, 2, 2):
        with threads(number):
            several.append(compress(pictures(6, (40, 36)), 40))
    assert several == [several[0]] * 3


def refusal(packets: list[bytes], size: tuple[int, int] = (18, 24)) -> str:
    return refusal_of(ArtifactError, decompress, packets, size)


@pytest.mark.parametrize("size", [(16, 24), (18, 26), (24, 18)])
def test_pictures_of_another_size_are_refused(size):
    assert refusal(compress(pictures(), 50), size)
    # The decoder itself refuses a far larger one, before it has made it.
    assert "FFmpeg says" in refusal(compress(pictures(2, (512, 512)), 0), size)


@pytest.mark.parametrize("damage", [b"", b"\0", b"\xff" * 60, b"\0" * 60, b"\0\0\1\x67" * 20])
def test_packets_of_anything_else_and_of_another_number_are_refused(damage):
    packets = compress(pictures(), 50)
    assert refusal([damage, *packets[1:]])
    assert refusal([damage] * 5)
    assert refusal([b"".join(packets)])
    assert refusal([*packets, damage or b"\0"])


def test_what_the_encoder_cannot_do_is_one_sentence():
    with pytest.raises(ConfigError, match=r"^libx264 fails: .*\. Choose"):
        compress(torch.zeros(1, 3, 2, 20000), 50)


def test_a_missing_encoder_or_decoder_is_named(monkeypatch):
    monkeypatch.setattr(sparse, "ENCODER", "libnone")
    monkeypatch.setattr(sparse, "DECODER", "nothing")
    with pytest.raises(ConfigError, match=r"PyAV was built here without the encoder libnone\. Choose another"):
        compress(pictures(), 50)
    with pytest.raises(ConfigError, match=r"PyAV was built here without the decoder nothing\. Choose another"):
        decompress([b"\0"], (8, 8))
