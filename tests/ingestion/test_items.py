"""Data set objects become stores: those of Hugging Face and torchvision, and plain pairs of frames and label."""

import re
from collections import Counter
from concurrent.futures import Executor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from videos import numbered, shown_number

from prism.artifacts.store import ClipStore
from prism.errors import ClipError, ConfigError, SourceError
from prism.ingestion.build import ingest

CLIP = {"num_frames": 4, "stride": 1, "size": 32, "progress": False}
WHOLE = {**CLIP, "val_fraction": 0.0, "test_fraction": 0.0, "window": "centre"}


def video(first: int, num_frames: int = 8, size: int = 64) -> np.ndarray:
    """(T, H, W, 3) uint8; the frames show `first`, `first + 1`, …"""
    return np.stack([numbered(number, size, size) for number in range(first, first + num_frames)])


def pairs(num: int = 4, labels: tuple[Any, ...] = ("jump", "walk")) -> list[tuple[np.ndarray, Any]]:
    """`num` videos of each class; video k of all begins with number 10k."""
    return [(video(10 * k), labels[k % len(labels)]) for k in range(num * len(labels))]


def shown(store: ClipStore, split: str) -> list[list[int]]:
    return [[shown_number(frame.numpy()) for frame in clip] for clip in store.clips(split).frames]


@dataclass
class MapStyle:
    """As torchvision has them: a length, items with sound between frames and label, and no end of its own."""

    items: list
    classes: list[str]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple:
        frames, label = self.items[index % len(self.items)]
        return torch.from_numpy(frames), torch.zeros(1, 7), label


def test_pairs_become_a_store_like_a_folder_without_splits(tmp_path, capsys):
    store = ingest((item for item in pairs()), tmp_path / "store", flip="off", **CLIP)
    assert capsys.readouterr().err == "The source names no test videos: 2 are set apart from train.\n"
    assert (store.classes, store.flip) == (("jump", "walk"), False)
    assert {split: len(store.positions(split)) for split in store.splits} == {"train": 4, "val": 2, "test": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    for source, numbers in zip(store.sources, [n for s in store.splits for n in shown(store, s)], strict=True):
        item = int(source.path)
        assert source.label == ("jump", "walk")[item % 2]
        assert (source.video_frames, source.stride) == (8, 1)
        assert numbers == list(range(10 * item + source.start, 10 * item + source.start + 4))
        assert source.split == "train" or source.start == 2
    assert ClipStore.open(store.path).fingerprint == store.fingerprint


def test_splits_by_name_are_kept_with_every_window_that_is_wanted(tmp_path):
    splits = {"train": pairs(3), "validation": pairs(1), "test": pairs(2)}
    store = ingest(splits, tmp_path / "store", clips_per_video=2, random_test_windows=2, **CLIP)
    counts = {split: len(store.positions(split)) for split in store.splits}
    assert counts == {"train": 12, "val": 2, "test": 4, "test-random": 8}
    assert store.sources[0].path == "train/0000000"
    assert [numbers[0] for numbers in shown(store, "test")] == [2, 22, 12, 32]
    for source, numbers in zip(store.sources[-8:], shown(store, "test-random"), strict=True):
        assert numbers[0] == 10 * int(source.path[-7:]) + source.start


@pytest.mark.parametrize(
    "take", [torch.from_numpy, np.asarray, list, lambda v: torch.from_numpy(v) / 255, lambda v: v.astype(int)]
)
@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 3, 1, 2)])
def test_frames_may_come_in_either_order_of_axes_and_as_numbers_or_arrays(tmp_path, take, axes):
    items = [(take(frames.transpose(axes)), label) for frames, label in pairs(2)]
    store = ingest(items, tmp_path / "store", **WHOLE)
    assert shown(store, "train") == [list(range(first, first + 4)) for first in (2, 22, 12, 32)]


def test_frames_may_be_pictures_or_come_from_a_decoder(tmp_path):
    class Decoder:
        """As torchcodec has it: frames by their number, (3, H, W) tensors."""

        def __init__(self, frames):
            self.frames = frames

        def __getitem__(self, index):
            return torch.from_numpy(self.frames[index].transpose(2, 0, 1))

    items = [{"label": label, "video": Decoder(frames)} for frames, label in pairs(2)]
    items += [{"label": label, "frames": list(map(Image.fromarray, frames))} for frames, label in pairs(2)]
    store = ingest(items, tmp_path / "store", **WHOLE)
    assert shown(store, "train") == [list(range(first, first + 4)) for first in (2, 22, 2, 22, 12, 32, 12, 32)]
    grey = np.arange(0, 2**16, 2**8, dtype=np.uint16).repeat(4).reshape(32, 32)
    items = [([Image.fromarray(grey)] * 4, label) for label in ("jump", "walk")]
    frames = ingest(items, tmp_path / "grey", **WHOLE).clips("train").frames
    assert np.array_equal(frames, np.broadcast_to(grey >> 8, frames.shape))


def test_numbers_get_the_names_that_a_data_set_has_for_them_or_are_ordered(tmp_path):
    class Features(list):
        features = {"labels": SimpleNamespace(names=["sit", "stand"])}  # noqa: RUF012

    named = MapStyle(pairs(2, (0, 1)), ["jump", "walk"])
    assert ingest(named, tmp_path / "torchvision", **CLIP).classes == ("jump", "walk")
    items = Features({"video": frames, "labels": label} for frames, label in pairs(2, (1, 0)))
    store = ingest({"train": items}, tmp_path / "hugging", **CLIP)
    assert store.classes == ("sit", "stand")
    assert {source.label for source in store.sources if source.path == "train/0000000"} == {"stand"}
    unnamed = ingest(pairs(1, tuple(np.arange(11))), tmp_path / "unnamed", **WHOLE)
    assert list(unnamed.classes) == [source.label for source in unnamed.sources] == list(map(str, range(11)))
    tensors = ingest(pairs(2, (torch.tensor(3), torch.tensor(1))), tmp_path / "tensors", **CLIP)
    assert tensors.classes == ("1", "3")


def test_datasets_of_hugging_face_are_read_with_their_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"video": datasets.Array4D((4, 16, 16, 3), "uint8"), "label": datasets.ClassLabel(names=["sit", "stand"])}
    )
    rows = {"video": [video(10 * k, 4, 16) for k in range(4)], "label": [1, 0, 1, 0]}
    data = datasets.Dataset.from_dict(rows, features=features).with_format("numpy")
    store = ingest(datasets.DatasetDict({"train": data}), tmp_path / "store", **{**CLIP, "size": 16})
    assert (store.classes, len(store)) == (("sit", "stand"), 4)


@pytest.mark.parametrize("name", [str, int, torch.tensor])
def test_items_of_one_recording_come_into_one_split(tmp_path, name):
    items = [
        {"video": video(10 * k), "label": label, "group": name(k // 3)} for k in range(15) for label in ("a", "b")
    ]
    store = ingest(items, tmp_path / "store", val_fraction=0.3, test_fraction=0.3, **CLIP)
    splits_of: dict[tuple[str, int], set[str]] = {}
    for source in store.sources:
        splits_of.setdefault((source.label, int(source.path) // 2 // 3), set()).add(source.split)
    assert Counter(map(tuple, splits_of.values())) == {("train",): 4, ("val",): 2, ("test",): 4}


def test_an_item_without_a_recording_is_one_of_its_own_and_parted_recordings_are_warned_of(tmp_path, capsys):
    items = [
        {"video": frames, "label": label, "group": group} for group in ("", None) for frames, label in pairs(2)
    ]
    store = ingest(items, tmp_path / "store", **CLIP)
    assert {split: len(store.positions(split)) for split in store.splits} == {"train": 4, "val": 2, "test": 2}
    of_one = [{"video": frames, "label": label, "group": "g1"} for frames, label in pairs(2)]
    ingest({"train": of_one, "test": of_one}, tmp_path / "parted", **CLIP)
    assert "in more than one split: 2 ('g1', 'g1') of 2." in capsys.readouterr().err


GOOD = pairs(2)


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([*GOOD, (video(0), None)], "item 4 of the data set has no label. It must be (frames, label), or a table"),
        ([video(0)], "item 0 of the data set has no label."),
        ([{"label": 1}], "item 0 of the data set has no frames."),
        ([(video(0), -1)], "item 0 of the data set has the label '-1', but it must be a name or one of 0, 1, …."),
        ([(video(0), 0.5)], "has the label '0.5', but it must be a name"),
        ([(video(0), "")], "has the label '', but it must be a name"),
        (MapStyle([(video(0), 2)], ["a", "b"]), "has the label '2', but it must be a name or one of 0..1."),
        ([(video(0)[..., 0], "walk")], "has frames of shape (8, 64, 64), but they must be (T, H, W, 3) or (T, 3"),
        ([(video(0).transpose(3, 0, 1, 2), "a")], "sides of at least 8. Is this (C, T, H, W)?"),
        ([(video(0)[:1], "a")], "has frames of shape (1, 64, 64, 3), but they must be"),
        ([(video(0, 4, 64)[:, :4], "a")], "has frames of shape (4, 4, 64, 3)"),
        ([([video(0)[0], video(0)[0, 1:]], "a")], "has frames that cannot be read: all input arrays must have"),
        ([(video(0).astype(np.float32), "a")], "has frames of float32 that are no pixels"),
        ([(video(0) > 100, "a")], "has frames of bool that are no pixels"),
        ([(np.full((4, 16, 16, 3), np.nan), "a")], "has frames of float64 that are no pixels"),
        ([([Image.new("F", (64, 64))] * 4, "a")], "has frames that cannot be read: it has 32 bits in a pixel"),
        ([(7, "a")], "has frames that cannot be read: 'int' object is not iterable."),
        ([({"path": "a.mp4", "bytes": None}, "a")], "has a video that is not decoded. Install torchcodec"),
    ],
)
def test_an_item_that_cannot_be_used_is_named_and_nothing_is_left(tmp_path, items, says):
    with pytest.raises(ClipError, match=re.escape(says)) as refused:
        ingest(items, tmp_path / "store", **CLIP)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "options", "error", "says"),
    [
        ({"testing": GOOD}, {}, SourceError, "has the split 'testing', but it must be one of train, val, valid"),
        (7, {}, SourceError, "the source is of type int, but it must be a folder, a list or a data set."),
        ([], {}, SourceError, "no class, but it takes at least two classes"),
        (GOOD, {"layout": "classes"}, ConfigError, "ingest.layout = 'classes', but it must be auto"),
        (GOOD, {"sampling": "fps", "stride": 4}, ConfigError, "which has no frame rate"),
        (GOOD, {"executor": Executor()}, ConfigError, "Leave out the executor."),
    ],
)
def test_a_source_that_cannot_be_used_gets_one_sentence(tmp_path, source, options, error, says):
    with pytest.raises(error, match=re.escape(says)):
        ingest(source, tmp_path / "store", **(CLIP | options))
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_data_set_itself_comes_out_and_the_older_store_stays(tmp_path):
    def broken():
        yield pairs()[0]
        raise KeyError("my own")

    before = ingest(pairs(), tmp_path / "store", **CLIP).fingerprint
    with pytest.raises(KeyError, match="my own"):
        ingest(broken(), tmp_path / "store", overwrite=True, **CLIP)
    assert ClipStore.open(tmp_path / "store").fingerprint == before
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
