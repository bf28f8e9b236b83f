"""Splits that are cut, and cautions on recordings and copies in several of them. Files may be empty."""

import itertools
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.errors import SourceError
from prism.ingestion.build import make_plan
from prism.ingestion.listing import Listing, VideoSource
from prism.ingestion.options import IngestConfig
from prism.ingestion.splits import assign_splits, list_videos, recording, split_videos
from tests.ingestion.test_listing import touch

GROUPS = r"_(g\d+)_"
COUNTS = st.lists(st.integers(1, 40), min_size=2, max_size=5)
SHARE = st.floats(0, 0.99)


def videos(label: str, count: int, split: str = "", groups: int = 0) -> list[VideoSource]:
    names = [f"v_g{k % groups:02d}_c{k:02d}.mp4" if groups else f"{k:03d}.mp4" for k in range(count)]
    return [VideoSource(Path(label, name), f"{label}/{name}", label, split) for name in names]


def cautions(listed: list[VideoSource], config: IngestConfig | None = None) -> list[str]:
    listing = Listing(Path(), listed)
    split_videos(listing, config or IngestConfig())
    return [note for note in listing.notes if note.startswith("Caution")]


def homes(assigned: list[VideoSource], pattern: str = "") -> dict[str, set[str]]:
    """The splits of each recording, of whatever classes."""
    found: dict[str, set[str]] = {}
    for video in assigned:
        found.setdefault(recording(video, pattern), set()).add(video.split)
    return found


@given(COUNTS, SHARE, SHARE, st.integers(0, 8), st.integers(0, 2**31))
def test_cutting_keeps_recordings_whole_and_every_class_in_train(counts, val, test, groups, seed):
    config = IngestConfig(val_fraction=val, test_fraction=test, group_pattern=GROUPS if groups else "", seed=seed)
    listed = [v for c, count in enumerate(counts) for v in videos(f"class{c}", count, groups=groups)]
    assigned = assign_splits(listed, config)
    assert [replace(video, split="") for video in assigned] == listed
    assert all(len(splits) == 1 for splits in homes(assigned, config.group_pattern).values())
    trained = {video.label for video in assigned if video.split == "train"}
    assert trained == {f"class{c}" for c in range(len(counts))}
    assert assign_splits(listed[::-1], config) == assigned[::-1]


def test_the_shares_are_of_each_class_and_depend_on_the_seed():
    config, listed = IngestConfig(val_fraction=0.25, test_fraction=0.2), videos("jump", 100) + videos("walk", 10)
    counts = Counter((video.label, video.split) for video in assign_splits(listed, config))
    assert [counts["jump", split] for split in ("train", "val", "test")] == [60, 20, 20]
    assert [counts["walk", split] for split in ("train", "val", "test")] == [6, 2, 2]
    assert assign_splits(listed, config) != assign_splits(listed, replace(config, seed=1))
    whole = replace(config, val_fraction=0.0, test_fraction=0.0)
    assert {video.split for video in assign_splits(listed, whole)} == {"train"}


def test_splits_that_the_source_names_stay():
    listed = [
        replace(video, relative=f"{split}/{video.relative}")
        for label in ("jump", "walk")
        for split in ("train", "val", "test")
        for video in videos(label, 5, split)
    ]
    assert assign_splits(listed, IngestConfig()) == listed


def test_videos_are_ordered_by_split_then_by_class_whose_numbers_count():
    listed = [v for split in ("test", "train") for label in ("10", "2") for v in videos(label, 2, split)]
    found = split_videos(Listing(Path(), listed), IngestConfig(val_fraction=0.0))
    wanted = [(split, label) for split in ("train", "test") for label in ("2", "2", "10", "10")]
    assert [(video.split, video.label) for video in found] == wanted


def test_classes_that_cannot_be_learned_are_named():
    with pytest.raises(SourceError, match="only class 'jump', but it takes at least two"):
        assign_splits(videos("jump", 5), IngestConfig())
    others = videos("walk", 1, "val") + videos("run", 2, "test")
    with pytest.raises(SourceError, match=r"other splits, but none in train: 2 \('run', 'walk'\)\."):
        assign_splits(videos("jump", 5, "train") + others, IngestConfig())


def test_videos_that_a_group_pattern_does_not_fit_are_named_and_stand_alone():
    listed, config = videos("jump", 5, groups=2) + videos("walk", 5), IngestConfig(group_pattern=GROUPS)
    (said,) = cautions(listed, config)
    assert "finds no recording in 5 ('walk/000.mp4', 'walk/001.mp4', " in said
    alone = "of 10 paths: each of these videos counts as a recording of its own. A .csv list may name recordings"
    assert alone in said
    assert set(homes(assign_splits(listed, config), GROUPS)) >= {"g01", "walk/000.mp4"}
    with pytest.raises(SourceError, match=r"finds no recording in 5 \('run/000\.mp4', .* of 5 paths\. A \.csv"):
        cautions(videos("walk", 4) + videos("run", 1), config)


def test_classes_that_no_test_video_shows_are_named():
    (said,) = cautions(videos("jump", 5) + videos("walk", 1))
    assert said == "Caution: classes without test videos: 1 ('walk'). No score says anything of them."


def test_recordings_in_two_splits_are_warned_of_with_the_option_that_keeps_them_whole():
    listed = videos("a", 20, groups=10) + videos("b", 20, groups=10)
    (said,) = cautions(listed)
    begins = r"Caution: recordings with clips in more than one split: \d+ \('[ab]/g0\d', .* of 20\. They"
    assert re.match(begins, said)
    assert GROUPS in said
    whole = IngestConfig(group_pattern=GROUPS)
    assert cautions(listed, whole) == []
    assert all(len(splits) == 1 for splits in homes(assign_splits(listed, whole), GROUPS).values())
    assert cautions([replace(video, recording=video.relative[-11:-8]) for video in listed]) == []
    assert cautions(videos("a", 5) + videos("b", 5)) == []


def test_a_list_may_name_recordings_and_they_are_set_apart_whole(tmp_path):
    rows = [f"{label}/{r}{c}.mp4,{label},train,{r}" for label in ("jump", "walk") for r in "pqrst" for c in "12"]
    rows.append("jump/alone.mp4,jump,test,")
    touch(tmp_path, *(row.partition(",")[0] for row in rows))
    (tmp_path / "list.csv").write_text("\n".join(["path,label,split,group", *rows]))
    found = homes(assign_splits(list_videos(tmp_path / "list.csv").videos, IngestConfig(val_fraction=0.4)))
    assert Counter(map(tuple, found.values())) == {("train",): 3, ("val",): 2, ("test",): 1}
    assert found["jump/alone.mp4"] == {"test"}


@pytest.mark.parametrize("pattern", ["", GROUPS])
def test_recordings_that_the_source_parts_are_warned_of_also_across_classes(pattern):
    rows = [("a", "g1", "train"), ("a", "g2", "test"), ("b", "g3", "train"), ("b", "g1", "test")]
    listed = [
        VideoSource(Path(), f"{label}/v_{group}_c{k}", label, split, group if not pattern else f"r{k}")
        for k, (label, group, split) in enumerate(rows)
    ]
    (said,) = cautions(listed, IngestConfig(group_pattern=pattern))
    assert said.startswith("Caution: recordings with clips in more than one split: 1 ('g1') of 3. They look alike")


def test_it_is_said_how_many_videos_are_set_apart_for_tests():
    for count, said in ((5, "2 are set apart from train."), (1, "Every class has a single video or recording.")):
        listing = Listing(Path(), videos("a", count) + videos("b", count))
        split_videos(listing, IngestConfig())
        (note,) = listing.notes
        assert note.startswith("The source names no test videos: ")
        assert note.endswith(said)


@pytest.fixture
def alike(tmp_path) -> Path:
    """Eight files of one size."""
    for split, label, number in itertools.product(("train", "test"), "ab", (1, 2)):
        file = tmp_path / "root" / split / label / f"{number}.mp4"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(f"{split} {label} {number}".encode()[-9:].rjust(9))
    return tmp_path / "root"


def test_copies_in_two_splits_are_counted_and_two_are_named(alike):
    config = IngestConfig(val_fraction=0)
    shutil.copy(alike / "train/a/1.mp4", alike / "train/a/3.mp4")
    assert not make_plan(alike, config).listing.notes
    shutil.copy(alike / "train/a/1.mp4", alike / "test/a/1.mp4")
    shutil.copy(alike / "train/b/2.mp4", alike / "test/b/3.mp4")
    (note,) = make_plan(alike, config).listing.notes
    assert note == (
        "Caution: videos that are copies of one in another split, byte for byte: 2 ('test/a/1.mp4' (test) of "
        "'train/a/1.mp4' (train), 'test/b/3.mp4' (test) of 'train/b/2.mp4' (train)). A network is then scored on "
        "what it has seen. Remove one."
    )


def test_copies_are_found_where_videos_are_folders_of_frames_and_links(alike):
    config, pool = IngestConfig(val_fraction=0, follow_links=True), alike.parent
    for split in ("train", "test"):
        (alike / split / "a/9").mkdir()
        for name in ("1.png", "2.png"):
            (alike / split / "a/9" / name).write_bytes(name.encode() * 2)
        (pool / split).write_bytes(b"the same")
        (alike / split / "b/9.mp4").symlink_to(pool / split)
    # As many bytes, in another order.
    shutil.copytree(alike / "train/a/9", alike / "test/b/8")
    (alike / "test/b/8/1.png").rename(alike / "test/b/8/3.png")
    mixed, note = make_plan(alike, config).listing.notes
    assert mixed.endswith("are read as videos: 3 ('test/a/9', 'test/b/8', 'train/a/9').")
    assert "byte for byte: 2 ('test/a/9' (test) of 'train/a/9' (train), 'test/b/9.mp4' (test) of" in note
