"""The clip store: its bytes are specified, damage is named, and sampling is fair."""

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import write_store
from hypothesis import given
from hypothesis import strategies as st
from settings import contents, refusal_of

from prism.artifacts.cache import CacheFile
from prism.artifacts.store import ClipSource, ClipStore, StoreHeader, clips_csv, ordered_classes
from prism.errors import ArtifactError
from prism.machine.files import file_sha256
from prism.machine.randomness import generator

GOLDEN = Path(__file__).parents[1] / "golden" / "store"
SOURCES = [
    ClipSource("train", "drehen, links", "drehen, links/a.mp4", 0, 2, 9),
    ClipSource("train", "drehen, links", 'drehen, links/"b".mp4', 3, 1, 9),
    ClipSource("train", "größer", "größer/c.mp4", 0, 1, 2),
    ClipSource("val", "größer", "größer/d.mp4", 0, 1, 2),
    ClipSource("test", "drehen, links", "drehen, links/e.mp4", 1, 1, 4),
    ClipSource("test", "größer", "größer/f.mp4", 0, 1, 1),
]


def golden_frames() -> np.ndarray:
    """(6, 2, 3, 2, 3) pixels by arithmetic."""
    return (np.arange(6 * 2 * 18) * 37 % 256).astype(np.uint8).reshape(6, 2, 3, 2, 3)


def write_golden(path: Path) -> None:
    """Write the golden store as a maker of stores does: frames, clips, then the header that signs them."""
    path.mkdir()
    golden_frames().tofile(path / "frames.u8")
    (path / "clips.csv").write_text(clips_csv(SOURCES), encoding="utf-8")
    header = StoreHeader(
        num_frames=2,
        size=(2, 3),
        classes=("drehen, links", "größer"),
        splits={"train": 3, "val": 1, "test": 2},
        num_skipped=1,
        flip=False,
        mean=(0.25, 0.5, 0.75),
        std=(0.125, 0.25, 0.5),
        settings={"stride": 2, "seed": 0},
        sha256={name: file_sha256(path / name) for name in ("clips.csv", "frames.u8")},
    )
    (path / "store.json").write_text(header.to_json(), encoding="utf-8")


def test_the_written_store_is_byte_for_byte_the_golden_one(tmp_path):
    write_golden(tmp_path / "store")
    assert contents(tmp_path / "store") == contents(GOLDEN)


def test_the_golden_store_is_read_to_what_made_it():
    store = ClipStore.open(GOLDEN)
    assert (store.classes, list(store.sources)) == (("drehen, links", "größer"), SOURCES)
    assert (len(store), store.num_frames, store.size, store.flip) == (6, 2, (2, 3), False)
    assert store.normalisation.mean == (0.25, 0.5, 0.75)
    assert store.labels.tolist() == [0, 0, 1, 1, 0, 1]
    frames = torch.cat([store.clips(split).frames for split in store.splits])
    assert np.array_equal(frames.numpy(), golden_frames())


def test_a_pass_holds_one_random_window_of_each_test_video_in_the_order_of_the_test_split(make_store):
    store = make_store(test=2, random_test_windows=3)
    passes, every = store.passes(), store.clips("test-random")
    assert (store.num_passes, len(passes), len(every)) == (3, 3, 12)
    assert all(torch.equal(one.labels, store.clips("test").labels) for one in passes)
    assert torch.equal(torch.stack([one.frames for one in passes], dim=1).flatten(0, 1), every.frames)


def test_a_store_has_random_test_windows_only_where_they_were_asked_for(store, make_store):
    assert (store.splits, store.num_passes) == (("train", "val", "test"), 0)
    assert "4 test, 8×" in repr(store)
    assert "no test-random clips" in refusal_of(ArtifactError, store.passes)
    assert "4 test, 8 test-random, 8×" in repr(make_store(random_test_windows=2))


@pytest.mark.parametrize(
    ("paths", "pattern", "named", "found"),
    [
        (["run/a.mp4", "run/b.mp4"], "", ["", ""], ["run/a.mp4", "run/b.mp4"]),
        (["v_Run_g07_c01.avi", "v_Run_g07_c02.avi"], "", ["", ""], ["g07", "g07"]),
        (["day1-a.mp4", "day2-b.mp4"], r"(day\d)", ["", ""], ["day1", "day2"]),
        (["a.mp4", "b.mp4"], "", ["monday", "monday"], ["monday", "monday"]),
    ],
)
def test_a_recording_is_named_by_the_source_else_the_path_else_the_video(make_store, paths, pattern, named, found):
    store = make_store(classes=2, test=1)
    start = store.positions("test").start
    renamed = zip(store.sources[start:], paths, named, strict=True)
    test = [replace(source, path=path, recording=name) for source, path, name in renamed]
    every = [*store.sources[:start], *test]
    header = replace(store.header, settings={"group_pattern": pattern})
    assert ("recording" in clips_csv(every).partition("\n")[0]) == any(named)
    assert [name for _, name in ClipStore(store.path, header, every).recordings("test")] == found


def test_equal_stores_share_a_fingerprint_and_others_do_not(make_store):
    first, again = make_store(seed=1), make_store(seed=1)
    assert first.fingerprint == again.fingerprint
    others = [make_store(seed=2), make_store(seed=1, flip=False), make_store(seed=1, train=3)]
    assert len({store.fingerprint for store in [first, *others]}) == 4


def edit_header(store: Path, **values: Any) -> None:
    """Replace values of store.json; None deletes."""
    content = json.loads((store / "store.json").read_text(encoding="utf-8")) | values
    content = {key: value for key, value in content.items() if value is not None}
    (store / "store.json").write_text(json.dumps(content), encoding="utf-8")


def edit_clips(store: Path, text: str) -> None:
    """Replace clips.csv and sign it."""
    (store / "clips.csv").write_text(text, encoding="utf-8")
    content = json.loads((store / "store.json").read_text(encoding="utf-8"))
    edit_header(store, sha256=content["sha256"] | {"clips.csv": file_sha256(store / "clips.csv")})


def cut(path: Path, num_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:-num_bytes])


def change_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def edit_splits(store: Path, old: str, new: str, counts: dict[str, int]) -> None:
    edit_clips(store, CLIPS.replace(old, new))
    edit_header(store, splits={"train": 3, "val": 1, **counts})


CLIPS = (GOLDEN / "clips.csv").read_text(encoding="utf-8")
MIXED = [SOURCES[2], *SOURCES[:2], *SOURCES[3:]]
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no store.json": (lambda s: (s / "store.json").unlink(), "is a folder, not a clip store"),
    "no frames.u8": (lambda s: (s / "frames.u8").unlink(), "lost its frames.u8"),
    "truncated frames": (lambda s: cut(s / "frames.u8", 1), "a changed frames.u8"),
    "edited clips.csv": (lambda s: change_byte(s / "clips.csv"), "changed clips.csv"),
    "edited frames": (lambda s: change_byte(s / "frames.u8"), "a changed frames.u8"),
    "store.json is a list": (lambda s: (s / "store.json").write_text("[]"), "not of the format"),
    "newer version": (lambda s: edit_header(s, version=2), "version 2, but this PRISM reads 1"),
    "no flip": (lambda s: edit_header(s, flip=None), "'flip' is missing. Ingest it again"),
    "classes are not sorted": (lambda s: edit_header(s, classes=["größer", "drehen, links"]), "'classes' is ("),
    "a renamed class": (lambda s: edit_header(s, classes=["drehen, links", "grösser"]), "größer"),
    "splits are negative": (lambda s: edit_header(s, splits={"train": 7, "val": -3, "test": 2}), "'splits' is -3"),
    "splits count more": (lambda s: edit_header(s, splits={"train": 3, "val": 1, "test": 3}), "other clips"),
    "std is zero": (lambda s: edit_header(s, std=[0.5, 0.0, 0.5]), "std"),
    "no pattern of recordings": (lambda s: edit_header(s, settings={"group_pattern": "(g"}), "'settings' is"),
    "a pattern too deep": (lambda s: edit_header(s, settings={"group_pattern": "(" * 3000}), "'settings' is"),
    "a pattern without a group": (lambda s: edit_header(s, settings={"group_pattern": "_g"}), "'settings' is"),
    "sha256 is a list": (lambda s: edit_header(s, sha256=[]), "sha256"),
    "a random window of no test video": (
        lambda s: edit_splits(s, "test,größer", "test-random,größer", {"test": 1, "test-random": 1}),
        "not as many of each",
    ),
    "a split that is none": (lambda s: edit_splits(s, "test,", "exam,", {"test": 0, "exam": 2}), "splits"),
    "an unknown label": (lambda s: edit_clips(s, CLIPS.replace("val,größer", "val,kleiner")), "kleiner"),
    "labels out of order": (lambda s: edit_clips(s, clips_csv(MIXED)), "not sorted"),
}


@pytest.mark.parametrize(("damage", "says"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_store_is_refused_in_one_sentence_that_names_the_part(tmp_path, damage, says):
    store = shutil.copytree(GOLDEN, tmp_path / "store")
    damage(store)
    said = refusal_of(ArtifactError, ClipStore.open, store)
    assert says in said
    assert str(store) in said


@pytest.mark.parametrize(
    "change", [{"mean": [0.1] * 3}, {"std": [0.1] * 3}, {"flip": False}, {"classes": ["a", "b"]}]
)
def test_a_changed_store_json_is_noticed_like_changed_pixels(make_store, change):
    store = make_store()
    before, made = store.fingerprint, CacheFile.of(store, "means", {}, torch.device("cpu")).path
    edit_header(store.path, **change)
    assert "was changed, replaced or moved" in refusal_of(ArtifactError, store.check_unchanged)
    if "classes" in change:
        text = (store.path / "clips.csv").read_text()
        edit_clips(store.path, text.replace("class0", "a").replace("class1", "b"))
    again = ClipStore.open(store.path)
    assert again.fingerprint != before
    assert CacheFile.of(again, "means", {}, torch.device("cpu")).path != made


@pytest.fixture(scope="module")
def ragged(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """A store of classes with 5, 1 and 3 training clips."""
    path = tmp_path_factory.mktemp("ragged") / "store"
    return write_store(path, classes=3, train=[5, 1, 3], num_frames=2, size=2)


@given(st.integers(1, 7), st.integers(0, 10_000))
def test_a_sample_never_repeats_and_is_grouped_by_class_as_large_as_the_class_allows(ragged, num, seed):
    chosen = ragged.sample(num, generator(seed, "test"))
    labels = ragged.clips("train").labels[chosen]
    assert len(set(chosen.tolist())) == len(chosen)
    assert labels.tolist() == sorted(labels.tolist())
    assert torch.bincount(labels, minlength=3).tolist() == [min(num, count) for count in (5, 1, 3)]


def test_every_clip_of_a_class_is_drawn_equally_often(ragged):
    counts = torch.zeros(9, dtype=torch.int64)
    for seed in range(500):
        counts[ragged.sample(2, generator(seed, "test"))] += 1
    # Two of five: 200 expected; two of three: 333. Five standard deviations are 55.
    assert (counts[:5] - 200).abs().max() < 55
    assert counts[5] == 500
    assert (counts[6:] - 1000 / 3).abs().max() < 55


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["10", "9", "2", "0"], ["0", "2", "9", "10"]),
        (["1.5", "-1", "10", "010"], ["-1", "1.5", "010", "10"]),
        (["10", "9", "b"], ["10", "9", "b"]),
        (["nan", "1", "1e3"], ["1", "1e3", "nan"]),
    ],
)
def test_classes_that_are_all_numbers_are_ordered_as_numbers(names, ordered):
    assert ordered_classes(names) == ordered


def test_a_store_of_a_relative_path_is_found_from_another_folder(make_store, tmp_path, monkeypatch):
    path = make_store().path
    monkeypatch.chdir(path.parent)
    store = ClipStore.open(path.name)
    monkeypatch.chdir(tmp_path.parent)
    assert len(pickle.loads(pickle.dumps(store)).clips("train")) == len(store.clips("train")) > 0


def test_no_clips_are_a_subset(store):
    clips = store.clips("train")
    assert len(clips.subset([])) == len(clips.subset(torch.zeros(len(clips), dtype=torch.bool))) == 0
