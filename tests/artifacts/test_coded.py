"""Compressed sets: the real size of real clips as H.264, readable for good, and safe to read from a stranger."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from prism.artifacts import STORAGES
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding, sparse
from prism.artifacts.encodings.sparse import H264
from prism.artifacts.keyframes import enlarge
from prism.condensation.condense import condense
from prism.condensation.loop import Condensation
from prism.errors import ArtifactError, ConfigError
from prism.evaluation.evaluate import evaluate
from prism.selection.select import select
from tests.artifacts.test_condensed import GOLDEN, MASK, forge_of, golden_set, int32, refusal
from tests.artifacts.test_h264 import pictures


def smooth_frames(num: int = 3, size: tuple[int, int] = (18, 24)) -> torch.Tensor:
    """(num, 4, 3, H, W) pixels in [0, 1]; the last video leaves it."""
    videos = torch.stack([pictures(4, size, seed) for seed in range(num)]) / 255
    return torch.cat([videos[:-1], videos[-1:] * 3 - 1])


def stored(name: str) -> Encoding:
    return STORAGES.make(name, SimpleNamespace(quality=90))


def coded_set(storage: str = "h264") -> CondensedSet:
    """Three videos of 2, 3 and 4 key-frames."""
    return golden_set(stored(storage).with_frames(smooth_frames(), MASK))


def images(condensed: CondensedSet) -> SimpleNamespace:
    assert isinstance(condensed.encoding, H264)
    return SimpleNamespace(**condensed.encoding.tensors)


def test_a_file_of_the_first_day_is_still_read_to_its_pictures():
    """The encoder's next version may write other bytes; these must keep their meaning."""
    condensed = CondensedSet.load(GOLDEN / "coded-h264.safetensors")
    assert (condensed.encoding.storage, condensed.num_frames, condensed.size) == ("h264", 4, (18, 24))
    assert condensed.keyframe_counts.tolist() == [2, 3, 4]
    error = (condensed.render() - coded_set("float32").render()).abs().flatten(1).mean(dim=1)
    assert (error < torch.tensor([0.02, 0.02, 0.05])).all()


def test_a_video_that_leaves_the_pixels_range_keeps_its_own():
    condensed = coded_set()
    assert images(condensed).scale.tolist()[:2] == [pytest.approx(1 / 255)] * 2
    assert images(condensed).minimum.tolist()[:2] == [0, 0]
    exact, found = coded_set("float32").render()[2], condensed.render()[2]
    assert exact.min() < -0.3 < 1.3 < exact.max()
    assert abs(float(found.min() - exact.min())) < 0.15
    assert abs(float(found.max() - exact.max())) < 0.15


def test_real_clips_cost_a_fraction_of_their_pixels_and_train_a_network(make_store):
    frames = torch.stack([pictures(8, (48, 48), seed) for seed in range(14)]).byte().numpy()
    store = make_store(frames=frames)
    exact, coded = (select(store, vpc=2, storage=name, quality=40) for name in ("uint8", "h264"))
    assert (coded.source["clips"], coded.source["config"]["quality"]) == (exact.source["clips"], 40)
    assert coded.mask.all()
    assert coded.num_bytes < exact.num_bytes / 3
    assert (coded.render() - exact.render()).abs().mean() < 0.05
    result = evaluate(coded, store, width=2, epochs=1, seeds=1, device="cpu")
    assert (result.subject.num_bytes, result.subject.float32_bytes) == (coded.num_bytes, exact.float32_bytes)


INCONSISTENT: dict[str, Callable[[torch.Tensor], dict[str, Any]]] = {
    "a packet size of zero": lambda sizes: {"packet_sizes": torch.cat([int32(0), sizes[1:]])},
    "a packet size beyond the bytes": lambda sizes: {"packet_sizes": torch.cat([int32(2**31 - 1), sizes[1:]])},
    "too few packet sizes": lambda sizes: {"packet_sizes": sizes[1:]},
    "no bytes": lambda sizes: {"packets": torch.zeros(0, dtype=torch.uint8)},
    "a scale for two videos": lambda sizes: {"scale": torch.ones(2)},
    "a range that overflows": lambda sizes: {"scale": torch.full((3,), 1e37)},
    "no scale": lambda sizes: {"scale": None},
}


@pytest.mark.parametrize("name", INCONSISTENT)
def test_a_signed_but_inconsistent_file_is_refused_in_one_sentence(tmp_path, name):
    made = coded_set()
    spoiled = INCONSISTENT[name](images(made).packet_sizes)
    assert "checksum" not in refusal(forge_of(made, tmp_path / "set", tensors=spoiled))


UNDECODABLE: dict[str, Callable[[CondensedSet], dict[str, Any]]] = {
    "another size": lambda made: {"metadata": {"size": [36, 24]}},
    "a size of an even larger picture": lambda made: {"metadata": {"size": [2048, 2048]}},
    "zeros": lambda made: {"tensors": {"packets": torch.zeros_like(images(made).packets)}},
    "packets that begin too late": lambda made: {"tensors": {"packets": images(made).packets.roll(-1)}},
}


@pytest.mark.parametrize("name", UNDECODABLE)
def test_packets_of_something_else_load_and_are_refused_in_one_sentence_when_rendered(tmp_path, name):
    made = coded_set()
    condensed = CondensedSet.load(forge_of(made, tmp_path / "set", **UNDECODABLE[name](made)))
    with pytest.raises(ArtifactError, match=r"^a video cannot be decoded as \w+: [^\n]*\.$"):
        condensed.render()


def test_a_set_that_is_only_opened_is_never_decoded(tmp_path, monkeypatch):
    coded_set().save(tmp_path / "set")
    monkeypatch.setattr(sparse, "decompress", None)
    assert len(CondensedSet.load(tmp_path / "set")) == 3


def scaled_set(storage: str) -> CondensedSet:
    """The same videos, of which every stored pixel stands for two times two."""
    return golden_set(stored(storage).with_frames(smooth_frames(), MASK, scale=2))


@pytest.mark.parametrize("storage", STORAGES.registry)
def test_a_set_with_a_scale_is_read_back_and_renders_to_larger_clips(tmp_path, storage):
    made = scaled_set(storage)
    made.save(tmp_path / "set")
    loaded = CondensedSet.load(tmp_path / "set")
    assert loaded.to_bytes() == made.to_bytes()
    assert (loaded.size, loaded.metadata["scale"]) == ((36, 48), 2)
    assert torch.equal(loaded.render(), enlarge(coded_set(storage).render(), 2))
    assert loaded.float32_bytes == coded_set(storage).float32_bytes


@pytest.mark.parametrize("storage", ["uint8", "h264"])
@pytest.mark.parametrize("scale", [0, 5, 10**30, True, "2"])
def test_a_scale_that_does_not_fit_is_refused(tmp_path, storage, scale):
    made = scaled_set(storage)
    size = [18 * scale, 24 * scale] if type(scale) is int and scale != 5 else [36, 48]
    refusal(forge_of(made, tmp_path / "set", metadata={"scale": scale, "size": size}))


@pytest.mark.parametrize("verb", ["select", "condense"])
def test_a_missing_encoder_is_named_before_the_first_step(store, tmp_path, monkeypatch, verb):
    monkeypatch.setattr(sparse, "ENCODER", "libnone")
    monkeypatch.setattr("prism.networks.trained.train", None)
    monkeypatch.setattr(Condensation, "step", None)
    run = {"select": partial(select, store, method="herding"), "condense": partial(condense, store)}
    with pytest.raises(ConfigError, match="without the encoder libnone"):
        run[verb](storage="h264", output=tmp_path / "set")
    assert not (tmp_path / "set").exists()
