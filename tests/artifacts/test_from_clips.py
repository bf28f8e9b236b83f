"""Videos that were made elsewhere become a set with all that they are, or are refused at once."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import prism
from prism.artifacts.clips import Clips
from prism.artifacts.encodings.sparse import H264, Float32, UInt8
from prism.errors import ArtifactError, ClipError, ConfigError


@pytest.fixture(scope="module")
def chosen(store):
    """A real clip of each class, the last class first."""
    clips = store.clips("train")
    return clips.subset([int((clips.labels == label).nonzero()[0]) for label in (1, 0)])


def test_every_value_is_kept_to_the_last_bit_and_survives_its_file(store, chosen, tmp_path):
    frames = 3 * torch.randn((2, *chosen.frames.shape[1:]), generator=torch.Generator().manual_seed(0))
    clips = Clips(frames, chosen.labels, chosen.classes)
    made = prism.CondensedSet.from_clips(clips, store.path, method="noise", seed=3)
    assert torch.equal(made.render(), frames[[1, 0]])
    made.save(tmp_path / "noise.safetensors")
    read = prism.CondensedSet.load(tmp_path / "noise.safetensors")
    assert (read.fingerprint, read.source["store"]) == (made.fingerprint, store.fingerprint)
    assert (read.source["method"], read.source["config"]) == ("noise", {"seed": 3})


USELESS = [
    ({"classes": ("a", "b")}, ArtifactError, "classes of the clips are not those of the store"),
    ({"frames": torch.zeros(2, 3, 3, 48, 48)}, ArtifactError, r"\(3, 48, 48\), but the store has \(8, 48, 48\)"),
    ({"labels": torch.tensor([0, 0])}, ArtifactError, "no video of class 'class1'"),
    ({"frames": torch.full((2, 8, 3, 48, 48), torch.nan)}, ClipError, "a mean of nan"),
    ({"frames": torch.full((2, 8, 3, 48, 48), 90.0)}, ClipError, "a mean of 90, but .* in 0..1"),
]


@pytest.mark.parametrize(("change", "error", "says"), USELESS)
def test_what_no_verb_could_use_is_refused_at_once(store, chosen, change, error, says):
    with pytest.raises(error, match=says):
        prism.CondensedSet.from_clips(replace(chosen, **change), store, method="mine")


def test_numbers_of_numpy_are_numbers_and_options_that_no_file_can_hold_are_refused(store, chosen):
    options = {"seed": np.int64(3), "rate": np.float32(0.5)}
    made = prism.CondensedSet.from_clips(chosen, store, method="mine", **options).source["config"]
    assert (made, type(made["seed"])) == ({"seed": 3, "rate": 0.5}, int)
    for options in ({"rate": math.nan}, {"by": Path("x")}, {"by": torch.tensor(1)}, {"by": "\ud800"}):
        with pytest.raises(ConfigError, match=r"^(by|rate) = .* a number or a text"):
            prism.CondensedSet.from_clips(chosen, store, method="mine", **options)
    for wrong in ({"seed": 1.5}, {"seed": "a"}, {"seed": True}, {"method": 5}):
        with pytest.raises(ConfigError, match=r"method = .*, seed = .* a text and a whole number"):
            prism.CondensedSet.from_clips(chosen, store, **{"method": "mine"} | wrong)


ODD = [torch.float16, np.uint8, Path("uint8"), torch.zeros(3), len, dict, str, partial(dict, 1), 0, "", [], 3]


@pytest.mark.parametrize("storage", ODD)
def test_what_is_no_storage_is_refused_by_the_names_of_those_that_are(store, chosen, storage):
    with pytest.raises(ConfigError, match=r"^storage = .*, but it must be one of float32, float16, uint8, yuv420"):
        prism.CondensedSet.from_clips(chosen, store, method="mine", storage=storage)


@pytest.mark.parametrize("storage", [Float32(), UInt8(), H264(quality=50), "uint8", "yuv420"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_what_was_trained_in_any_type_of_floats_becomes_a_set(store, chosen, tmp_path, storage, dtype):
    frames = torch.rand(chosen.frames.shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    trained = replace(chosen, frames=frames.clone().requires_grad_())
    prism.CondensedSet.from_clips(trained, store, method="mine", storage=storage).save(tmp_path / "set")
    floats = replace(chosen, frames=frames.float())
    plain = prism.CondensedSet.from_clips(floats, store, method="mine", storage=storage)
    assert plain.to_bytes() == (tmp_path / "set").read_bytes()
