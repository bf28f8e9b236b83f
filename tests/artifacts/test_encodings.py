"""Encodings and storages of a stranger's own: saved, read by those who name them, trained on and shown."""

from typing import Any, ClassVar

import pytest
import torch
from settings import refusal_of

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.errors import ArtifactError, ConfigError
from prism.selection.select import select
from tests.artifacts.test_condensed import GOLDEN, forge_of, refusal


class EverySecond(Encoding):
    """Every second frame as grey levels; the others repeat the frame before."""

    NAME: ClassVar = "every-second"
    TENSORS: ClassVar = {"levels": (torch.uint8, 5)}

    def encode(self, frames, mask, scale=1):
        return {"levels": (frames[:, ::2] * 255).round().byte()}

    @property
    def mask(self):
        return (torch.arange(self.num_frames) % 2 == 0).repeat(len(self.tensors["levels"]), 1)

    def render(self, videos, normalisation, generator):
        return (self.tensors["levels"][videos] / 255).repeat_interleave(2, dim=1)[:, : self.num_frames]


@pytest.fixture
def thrifty(store) -> CondensedSet:
    return select(store, vpc=2, storage=EverySecond())


def test_a_set_in_an_encoding_of_one_s_own_is_read_back_and_renders_the_same(store, thrifty, tmp_path):
    thrifty.save(tmp_path / "set")
    read = CondensedSet.load(tmp_path / "set", encodings=[EverySecond])
    assert read.to_bytes() == thrifty.to_bytes()
    assert read.metadata["encoding"] == read.encoding.storage == "every-second"
    exact = select(store, vpc=2).render()
    torch.testing.assert_close(read.render(), exact[:, ::2].repeat_interleave(2, dim=1))
    assert torch.equal(read.render(torch.tensor([3, 1])), read.render()[[3, 1]])
    assert (read.num_keyframes, read.float32_bytes) == (4 * store.num_frames // 2, 4 * 4 * 4 * 3 * 48 * 48)
    assert "4 videos, 16 key-frames, 8×48×48, every-second" in repr(read)


class Labelled(EverySecond):
    NAME: ClassVar = "labelled"
    TENSORS: ClassVar = {"levels": (torch.uint8, 5), "labels": (torch.uint8, 5)}

    def encode(self, frames, mask, scale=1):
        return dict.fromkeys(self.TENSORS, (frames * 255).round().byte())


def test_an_encoding_has_no_tensor_of_the_name_of_the_labels(store):
    with pytest.raises(ConfigError, match="its tensor 'labels' has the name of the labels of a set"):
        select(store, storage=Labelled())


def test_an_encoding_is_never_read_without_being_named(thrifty, tmp_path):
    thrifty.save(tmp_path / "set")
    said = refusal(tmp_path / "set")
    assert "has the encoding 'every-second', but this PRISM reads keyframes, static-dynamic, h264, yuv420." in said
    assert "read a custom one in Python, as in evaluate(CondensedSet.load(path, encodings=[…]), …)." in said


def test_videos_that_share_a_tensor_cannot_be_joined():
    encoding = CondensedSet.load(GOLDEN / "static-dynamic-uint8.safetensors").encoding
    with pytest.raises(ConfigError, match=r"'static-dynamic' cannot be joined\. Leave out --executor\."):
        encoding.join([encoding, encoding])


SPOILED: dict[str, dict[str, Any]] = {
    "levels as float32": {"tensors": {"levels": torch.zeros(4, 4, 3, 48, 48)}},
    "levels of three videos": {"tensors": {"levels": torch.zeros(3, 4, 3, 48, 48, dtype=torch.uint8)}},
    "no levels": {"tensors": {"levels": None}},
    "a tensor too many": {"tensors": {"extra": torch.zeros(1)}},
    "another size": {"metadata": {"size": [48, 24]}},
    "an absurd length": {"metadata": {"num_frames": 10**12}},
    "a length that is text": {"metadata": {"num_frames": "8"}},
    "more takes than videos": {"metadata": {"takes": 3}},
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_is_wrong_with_every_file_is_refused_for_the_encoding(thrifty, tmp_path, name):
    forge_of(thrifty, tmp_path / "set", **SPOILED[name])
    said = refusal_of(ArtifactError, CondensedSet.load, tmp_path / "set", encodings=[EverySecond])
    assert "checksum" not in said
