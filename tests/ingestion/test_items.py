"""Data set objects become stores: those of Hugging Face and torchvision, and plain pairs of frames and label."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import IterableDataset, Subset, random_split
from videos import numbered, shown_number, write_classes

from prism.artifacts.store import ClipStore
from prism.errors import ClipError, ConfigError, SourceError
from prism.ingestion.build import ingest

CLIP = {"num_frames": 4, "stride": 1, "size": 32, "progress": False, "workers": 1}
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
    classes: list[str] | None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple:
        frames, label = self.items[index % len(self.items)]
        return torch.from_numpy(frames), torch.zeros(1, 7), label


def test_pairs_become_a_store_like_a_folder_without_splits(tmp_path, capsys):
    (tmp_path / ".store.items/train").mkdir(parents=True)  # Of a run that was killed.
    store = ingest((item for item in pairs()), tmp_path / "store", flip="off", **CLIP)
    assert "The source names no test videos: 2 are set apart from train." in capsys.readouterr().err
    assert (store.classes, store.flip) == (("jump", "walk"), False)
    assert {split: len(store.positions(split)) for split in store.splits} == {"train": 4, "val": 2, "test": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    for source, numbers in zip(store.sources, [n for s in store.splits for n in shown(store, s)], strict=True):
        item = int(source.path)
        assert source.label == ("jump", "walk")[item % 2]
        assert numbers == list(range(10 * item + source.start, 10 * item + source.start + 4))


def test_splits_by_name_are_kept(tmp_path):
    store = ingest({"train": pairs(3), "validation": pairs(1), "test": pairs(2)}, tmp_path / "store", **CLIP)
    assert {split: len(store.positions(split)) for split in store.splits} == {"train": 6, "val": 2, "test": 4}
    assert store.sources[0].path == "train/0000000"
    assert [numbers[0] for numbers in shown(store, "test")] == [2, 22, 12, 32]


@pytest.mark.parametrize(
    "take",
    [
        torch.from_numpy,
        list,
        lambda frames: torch.from_numpy(frames) / 255,
        lambda frames: frames.astype(int).transpose(0, 3, 1, 2),
        lambda frames: list(map(Image.fromarray, frames)),
        lambda frames: [Image.fromarray(frame).convert("RGBA") for frame in frames],
    ],
)
def test_frames_may_be_numbers_arrays_tensors_or_pictures(tmp_path, take):
    store = ingest([(take(frames), label) for frames, label in pairs(2)], tmp_path / "store", **WHOLE)
    assert shown(store, "train") == [list(range(first, first + 4)) for first in (2, 22, 12, 32)]
    same = ingest(pairs(2), tmp_path / "same", **WHOLE)
    assert torch.equal(store.clips("train").frames, same.clips("train").frames)


def test_numbers_get_the_names_that_a_data_set_has_for_them_or_are_ordered(tmp_path):
    class Features(list):
        features = {"labels": SimpleNamespace(names=["sit", "stand"])}  # noqa: RUF012

    named = MapStyle(pairs(2, (0, 1)), ["jump", "walk"])
    assert ingest(named, tmp_path / "torchvision", **CLIP).classes == ("jump", "walk")
    parts = Subset(random_split(named, [1.0])[0], range(len(named)))
    assert ingest(parts, tmp_path / "split", **CLIP).classes == ("jump", "walk")
    other = MapStyle(pairs(2, (0, 1)), None)
    other.dataset = named  # What a wrapper wraps may have other labels.
    assert ingest(other, tmp_path / "wrapper", **CLIP).classes == ("0", "1")
    items = Features({"video": frames, "labels": label} for frames, label in pairs(2, (1, 0)))
    store = ingest({"train": items}, tmp_path / "hugging", **CLIP)
    assert store.classes == ("sit", "stand")
    assert ingest({"train": Subset(items, [0, 1, 2, 3])}, tmp_path / "part", **CLIP).classes == ("sit", "stand")
    assert {source.label for source in store.sources if source.path == "train/0000000"} == {"stand"}
    unnamed = ingest(pairs(1, tuple(map(torch.tensor, range(11)))), tmp_path / "unnamed", **WHOLE)
    assert list(unnamed.classes) == [source.label for source in unnamed.sources] == list(map(str, range(11)))


class Endless(IterableDataset):
    """As PyTorch has them: a `__getitem__` that fails, and for a `DataLoader` perhaps a length."""

    def __init__(self, items: list, **attributes: Any) -> None:
        self.items = items
        vars(self).update(attributes)

    def __iter__(self) -> Iterator[tuple]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@pytest.mark.parametrize(
    "attributes",
    [{}, {"features": torch.zeros(12, 3)}, {"features": [1, 2]}, {"classes": 2}, {"classes": {"a": 0, "b": 1}}],
)
def test_iterable_data_sets_and_attributes_with_other_meanings_are_read(tmp_path, attributes):
    store = ingest(Endless(pairs(labels=(0, 1)), **attributes), tmp_path / "store", **WHOLE)
    assert (store.classes, len(store.positions("train"))) == (("0", "1"), 8)


def test_items_of_one_recording_come_into_one_split(tmp_path):
    items = [{"video": video(10 * k), "label": label, "group": k // 3} for k in range(15) for label in ("a", "b")]
    store = ingest(items, tmp_path / "store", val_fraction=0.3, test_fraction=0.3, **CLIP)
    splits_of: dict[tuple[str, int], set[str]] = {}
    for source in store.sources:
        splits_of.setdefault((source.label, int(source.path) // 6), set()).add(source.split)
    assert sorted(map(sorted, splits_of.values())) == [["test"]] * 4 + [["train"]] * 4 + [["val"]] * 2
    # The store keeps their names.
    assert sorted(Counter(store.recordings("test")).values()) == [3] * 4
    # Also where a pattern fits the path of one item alone.
    fitting = ingest(items, tmp_path / "fitting", group_pattern="^(0000000)$", **CLIP)
    named = {name for split in ("train", "val", "test") for _, name in fitting.recordings(split)}
    assert named == {"0000000", "0", "1", "2", "3", "4"}


@pytest.mark.parametrize("missing", [None, "", float("nan"), np.float32("nan"), np.datetime64("NaT")])
def test_an_item_whose_group_is_missing_is_a_recording_of_its_own(tmp_path, missing):
    items = [{"video": frames, "label": label, "group": missing} for frames, label in pairs(3)]
    store = ingest(items, tmp_path / "store", val_fraction=0, **CLIP)
    assert {split: len(store.positions(split)) for split in store.splits} == {"train": 4, "val": 0, "test": 2}


def test_a_recording_of_a_list_counts_where_names_of_files_tell_others(tmp_path):
    write_classes(tmp_path)
    rows = [
        f"{file.rename(file.with_name(f'v_g01_c{k}.mp4'))},{file.parent.name},tape{k // 2}"
        for k, file in enumerate(sorted(tmp_path.glob("*/*")))
    ]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,group", *rows]))
    store = ingest(tmp_path / "list.csv", tmp_path / "store", **CLIP)
    named = {name for split in ("train", "val", "test") for _, name in store.recordings(split)}
    assert named == {f"tape{k}" for k in range(4)}


def torn(error: Exception) -> Iterator:
    raise error
    yield


GOOD = pairs(2)
UNUSABLE = [
    ([*GOOD, (video(0), None)], "item 4 of the whole data set must be (frames, label), or a table"),
    ({"train": [{"label": 1}]}, "item 0 of the train data set must be (frames, label)"),
    ([(video(0), -1)], "has the label '-1', but it must be a name or one of 0, 1, …."),
    ([(video(0), 0.5)], "has the label '0.5', but it must be a name"),
    ([(video(0), " a")], "item 0 of the whole data set has the label ' a', but it must be one line of text"),
    *(([(video(0), label)], "has the label") for label in ("", "  ", "a\0", "a\nb", "a\rb", "a\ud800", "a\t")),
    (MapStyle([(video(0), 1)], ["a", "b "]), "has the label 'b ', but it must be one line of text, in UTF-8 "),
    ([{"video": video(0), "label": "a", "group": "g\n1"}], "has the group 'g\\n1', but it must be one line"),
    (MapStyle([(video(0), 2)], ["a", "b"]), "has the label '2', but it must be a name or one of 0..1."),
    ([(video(0)[..., 0], "a")], "has frames of uint8 with shape (8, 64, 64), but they must be (T, H, W, 3)"),
    ([(np.zeros((8, 64, 64, 4), np.uint8), "a")], "has frames of uint8 with shape (8, 64, 64, 4), but they m"),
    ([(np.float32(video(0)), "a")], "has frames of float32 with shape (8, 64, 64, 3), values 40 to 210, but"),
    ([(np.zeros((0, 64, 64, 3), np.uint8), "a")], "has frames of uint8 with shape (0, 64, 64, 3), but"),
    ([(video(0) > 100, "a")], "has frames of bool"),
    ([([Image.new("I;16", (64, 64))] * 4, "a")], "has frames that cannot be read: it has 16 or 32 bits"),
    ([(np.full((4, 16, 16, 3), np.nan), "a")], "has frames of float64"),
    ([(7, "a")], "has frames that cannot be read: 'int' object is not iterable."),
    ([(torn(OSError("torn")), "a")], "item 0 of the whole data set has frames that cannot be read: torn."),
    ([(torn(RuntimeError()), "a")], "has frames that cannot be read: RuntimeError."),
]


@pytest.mark.parametrize(("items", "says"), UNUSABLE)
def test_an_item_that_cannot_be_used_is_named_and_nothing_is_left(tmp_path, items, says):
    with pytest.raises(ClipError, match=re.escape(says)):
        ingest(items, tmp_path / "store", **CLIP)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "options", "error", "says"),
    [
        ({"testing": GOOD}, {}, SourceError, "has the split 'testing', but it must be one of train, val, valid"),
        (7, {}, SourceError, "the source is of type int, but it must be a folder, a list or a data set."),
        ([], {}, SourceError, "has no videos"),
        (GOOD, {"layout": "ssv2"}, ConfigError, "ingest.layout = 'ssv2', but it must be auto"),
        (GOOD, {"sampling": "fps", "stride": 4}, SourceError, "its frame rate is not known"),
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
