"""The condensed set: byte-for-byte its specification, and safe to read from a stranger."""

import hashlib
import json
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from settings import refusal_of, threads

from prism.artifacts import STORAGES
from prism.artifacts.clips import Normalisation
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import DTYPES, Encoding, as_numbers, from_numbers
from prism.errors import ArtifactError
from tests.artifacts.test_keyframes import masks

GOLDEN = Path(__file__).parents[1] / "golden"
MASK = torch.tensor([[True, False, False, True], [True, False, True, True], [True, True, True, True]])
LABELS = torch.tensor([0, 0, 1])


def arithmetic_frames() -> torch.Tensor:
    """(3, 4, 3, 2, 3) frames in 256ths, exact in every number format; the last video leaves [0, 1]."""
    frames = (torch.arange(3 * 4 * 18) * 37 % 256).float().view(3, 4, 3, 2, 3) / 256
    return torch.cat([frames[:2], frames[2:] * 4 - 1])


def arithmetic_set(storage: str) -> CondensedSet:
    """The set of the golden files."""
    return golden_set(STORAGES.make(storage, None).with_frames(arithmetic_frames(), MASK))


def golden_set(encoding: Encoding) -> CondensedSet:
    """Three videos of two classes: no random number, no version, no clock."""
    return CondensedSet(
        encoding,
        LABELS,
        classes=("left", "rechts, größer"),
        normalisation=Normalisation((0.25, 0.5, 0.75), (0.125, 0.25, 0.5)),
        flip=False,
        source={"method": "arithmetic", "config": {"seed": 0}},
    )


def golden(storage: str) -> Path:
    return GOLDEN / f"condensed-{storage}.safetensors"


@pytest.mark.parametrize("storage", DTYPES)
def test_the_written_file_is_byte_for_byte_the_golden_one(storage):
    assert arithmetic_set(storage).to_bytes() == golden(storage).read_bytes()


def test_a_set_is_equal_to_one_with_the_same_file_and_to_nothing_else():
    condensed = arithmetic_set("float32")
    assert {condensed, CondensedSet.load(golden("float32"))} == {condensed}
    assert condensed not in (arithmetic_set("uint8"), replace(condensed, flip=True), golden("float32"))
    assert condensed.clips() != condensed.clips()


def test_a_clip_has_the_same_bits_with_any_number_of_threads():
    frames = torch.rand(1, 8, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    encoding = STORAGES.make("float32", None).with_frames(frames, torch.ones(1, 8, dtype=torch.bool), scale=2)
    shown = []
    for number in (1, 3, 8):
        with threads(number):
            shown.append(encoding.render(torch.tensor([0]), Normalisation((0.5,) * 3, (0.25,) * 3), None))
    assert all(torch.equal(shown[0], other) for other in shown[1:])


@pytest.mark.parametrize("storage", DTYPES)
def test_the_golden_file_can_be_read_by_hand(storage):
    """With nothing but struct, json and NumPy, as the specification says."""
    data = golden(storage).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = json.loads(header.pop("__metadata__")["prism"])
    kinds = {"F32": "<f4", "F16": "<f2", "U8": "u1", "I32": "<i4", "I64": "<i8"}

    def array(name: str) -> np.ndarray:
        first, last = header[name]["data_offsets"]
        raw = data[8 + length + first : 8 + length + last]
        return np.frombuffer(raw, kinds[header[name]["dtype"]]).reshape(header[name]["shape"])

    assert array("times").tolist() == [0, 3, 0, 2, 3, 0, 1, 2, 3]
    assert (array("offsets").tolist(), array("labels").tolist()) == ([0, 2, 5, 9], [0, 0, 1])
    frames = array("keyframes").astype(np.float64)
    tolerance = 0.0
    if storage == "uint8":
        scale, minimum = array("scale"), array("minimum")
        assert (scale[:5].tolist(), minimum[:5].tolist()) == ([np.float32(1 / 255)] * 5, [0.0] * 5)
        frames = frames * scale[:, None, None, None] + minimum[:, None, None, None]
        tolerance = scale.max() / 2 * 1.001
    np.testing.assert_allclose(frames, arithmetic_frames()[MASK].numpy(), rtol=0, atol=tolerance)
    assert metadata == {
        "format": "prism-condensed-set",
        "version": 1,
        "classes": ["left", "rechts, größer"],
        "num_frames": 4,
        "size": [2, 3],
        "flip": False,
        "mean": [0.25, 0.5, 0.75],
        "std": [0.125, 0.25, 0.5],
        "source": {"method": "arithmetic", "config": {"seed": 0}},
        "sha256": metadata["sha256"],
    }
    assert metadata["sha256"] == signature(metadata, {name: array(name) for name in header})


def signature(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """The checksum as specified: the metadata without it as sorted JSON, then each tensor's name and bytes."""
    content = {key: value for key, value in metadata.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode())
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


@st.composite
def sets(draw: st.DrawFn) -> CondensedSet:
    """Any small condensed set."""
    mask, num_classes = draw(masks()), draw(st.integers(2, 3))
    labels = sorted(draw(st.lists(st.integers(0, num_classes - 1), min_size=len(mask), max_size=len(mask))))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    frames = rng.standard_normal((*mask.shape, 3, 2, 3)).astype(np.float32)
    return CondensedSet(
        STORAGES.make(draw(st.sampled_from(list(DTYPES))), None).with_frames(torch.from_numpy(frames), mask),
        torch.tensor(labels),
        classes=tuple(f"class {label}" for label in range(num_classes)),
        normalisation=Normalisation((0.1, 0.2, 0.3), (1.0, 0.7, 0.4)),
        flip=draw(st.booleans()),
        source={"note": draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=5))},
    )


@given(sets())
def test_a_saved_set_is_read_back_and_saved_again_to_the_same_bytes(tmp_path, condensed):
    condensed.save(path := tmp_path / "set.safetensors")
    loaded = CondensedSet.load(path)
    assert loaded.to_bytes() == condensed.to_bytes() == path.read_bytes()
    assert torch.equal(loaded.render(), condensed.render())
    assert condensed.num_bytes == path.stat().st_size


@given(sets())
def test_a_rendered_set_interpolates_between_its_stored_keyframes(condensed):
    encoding, clips = condensed.encoding, condensed.render()
    stored = encoding.keyframes(torch.arange(len(condensed)))
    for v in range(len(condensed)):
        first, last = encoding.tensors["offsets"][v : v + 2]
        times = encoding.tensors["times"][first:last].numpy()
        flat = stored[first:last].flatten(1).numpy()
        expected = [np.interp(range(condensed.num_frames), times, pixel) for pixel in flat.T]
        np.testing.assert_allclose(clips[v].flatten(1).numpy().T, expected, atol=1e-5)


def decoded(frames: torch.Tensor, number_format: str) -> torch.Tensor:
    return from_numbers("dynamic", as_numbers("dynamic", frames, number_format), torch.arange(len(frames)))


frames_of_any_range = st.tuples(st.integers(0, 1000), st.floats(-100, 100), st.floats(1e-3, 100)).map(
    lambda t: torch.from_numpy(np.random.default_rng(t[0]).standard_normal((2, 3, 4, 4)) * t[2] + t[1]).float()
)


@given(frames_of_any_range)
def test_uint8_errs_by_half_a_level_of_the_frames_range_at_most(frames):
    error = (decoded(frames, "uint8") - frames).abs().flatten(1).amax(dim=1)
    low, high = frames.flatten(1).aminmax(dim=1)
    level = torch.where((low >= 0) & (high <= 1), 1 / 255, (high - low) / 255)
    rounding = 1e-6 * frames.abs().flatten(1).amax(dim=1)
    assert (error <= level / 2 * 1.0001 + rounding).all()


def forge(path: Path, storage: str = "float32", **changes: Any) -> Path:
    """Write the golden set with changes like those of `forge_of`."""
    return forge_of(arithmetic_set(storage), path, **changes)


def forge_of(
    made: CondensedSet,
    path: Path,
    *,
    tensors: dict[str, torch.Tensor | None] | None = None,
    metadata: dict[str, Any] | None = None,
    remove: tuple[str, ...] = (),
) -> Path:
    """Write a set with tensors (None: left out) and metadata replaced, correctly signed."""
    parts = {**made._tensors, **(tensors or {})}
    kept = {name: tensor.contiguous() for name, tensor in parts.items() if tensor is not None}
    content = {key: value for key, value in (made.metadata | (metadata or {})).items() if key not in remove}
    content["sha256"] = signature(content, {name: tensor.numpy() for name, tensor in kept.items()})
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    path.write_bytes(safetensors.torch.save(kept, metadata={"prism": text}))
    return path


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def int64(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def test_a_forged_but_unchanged_file_is_the_golden_one(tmp_path):
    """So what the hostile files below are refused for is the one thing that each has wrong."""
    for storage in DTYPES:
        assert CondensedSet.load(forge(tmp_path / "set", storage)).to_bytes() == golden(storage).read_bytes()


KEYFRAMES = arithmetic_frames()[MASK]
NAN = KEYFRAMES.clone().index_fill_(0, torch.tensor([4]), float("nan"))
ENDLESS = int64(0, 2**63 - 1, -(2**63) + 1, -(2**62), 0, 9)
"""Each difference is at least two, in arithmetic modulo 2^64."""

INCONSISTENT: dict[str, dict[str, Any]] = {
    "times do not start at 0": {"tensors": {"times": int32(1, 3, 0, 2, 3, 0, 1, 2, 3)}},
    "times are negative": {"tensors": {"times": int32(-1, 3, 0, 2, 3, 0, 1, 2, 3)}},
    "times repeat": {"tensors": {"times": int32(0, 3, 0, 3, 3, 0, 1, 2, 3)}},
    "times fall": {"tensors": {"times": int32(0, 3, 0, 2, 3, 0, 2, 1, 3)}},
    "offsets beyond K": {"tensors": {"offsets": int64(0, 2, 500, 9)}},
    "offsets fall": {"tensors": {"offsets": int64(0, 5, 2, 9)}},
    "offsets overflow": {"tensors": {"offsets": ENDLESS, "labels": int32(0, 0, 0, 0, 1)}},
    "labels beyond the classes": {"tensors": {"labels": int32(0, 0, 2)}},
    "labels fall": {"tensors": {"labels": int32(0, 1, 0)}},
    "key-frames are float64": {"tensors": {"keyframes": KEYFRAMES.double()}},
    "key-frames have no pixels": {"tensors": {"keyframes": KEYFRAMES[:, :, :0]}, "metadata": {"size": [0, 3]}},
    "key-frames are too few": {"tensors": {"keyframes": KEYFRAMES[:8]}},
    "key-frames hold NaN": {"tensors": {"keyframes": NAN}},
    "empty": {"tensors": {"keyframes": KEYFRAMES[:0], "times": int32(), "offsets": int64(0), "labels": int32()}},
    "a frame too wide": {"tensors": {"keyframes": torch.zeros(9, 3, 1, 4097)}, "metadata": {"size": [1, 4097]}},
    "labels are missing": {"tensors": {"labels": None}},
    "a tensor too many": {"tensors": {"extra": int32(1)}},
    "uint8 without a scale": {"storage": "uint8", "tensors": {"scale": None, "minimum": None}},
    "uint8 with one minimum that is NaN": {"storage": "uint8", "tensors": {"minimum": NAN[:, 0, 0, 0]}},
    "another size": {"metadata": {"size": [2, 4]}},
    "T is absurd": {"metadata": {"num_frames": 10**12}},
    "T is true": {"metadata": {"num_frames": True}},
    "no takes": {"metadata": {"takes": 0}},
    "more takes than clips": {"metadata": {"takes": 2}},
    "takes are true": {"metadata": {"takes": True}},
    "one class": {"metadata": {"classes": ["left"]}},
    "std is zero": {"metadata": {"std": [0.5, 0.0, 0.5]}},
    "flip is a number": {"metadata": {"flip": 1}},
    "source is a list": {"metadata": {"source": []}},
    "newer version": {"metadata": {"version": 2}},
    "another format": {"metadata": {"format": "prism-clip-store"}},
}


def refusal(path: Path) -> str:
    """The one sentence with which a file is refused."""
    sentence = refusal_of(ArtifactError, CondensedSet.load, path)
    assert str(path) in sentence
    assert sentence.endswith(".")
    return sentence


@pytest.mark.parametrize("name", INCONSISTENT)
def test_a_signed_but_inconsistent_file_is_refused_in_one_sentence(tmp_path, name):
    assert "checksum" not in refusal(forge(tmp_path / "set", **INCONSISTENT[name]))


@pytest.mark.parametrize("storage", DTYPES)
def test_a_truncated_or_longer_file_is_refused_wherever_it_ends(tmp_path, storage):
    whole, path = golden(storage).read_bytes(), tmp_path / "set"
    for length in [*range(0, len(whole), 50), len(whole) - 1, len(whole) + 1]:
        path.write_bytes((whole + b"\0")[:length])
        refusal(path)


@pytest.mark.parametrize(("storage", "step"), [("uint8", 5), ("float32", 9)])
def test_no_flipped_byte_is_read_as_other_data(tmp_path, storage, step):
    whole, path = golden(storage).read_bytes(), tmp_path / "set"
    for position in range(0, len(whole), step):
        damaged = bytearray(whole)
        damaged[position] ^= (0x01, 0x20, 0xFF)[position // step % 3]
        path.write_bytes(damaged)
        with suppress(ArtifactError):
            assert CondensedSet.load(path).to_bytes() == whole, f"byte {position} was read as other data"
