"""Which videos a source holds, and which split each belongs to. Layouts read names, so files may be empty."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st
from videos import write_classes

import prism
from prism.errors import ConfigError, SourceError
from prism.ingestion import splits
from prism.ingestion.layouts import list_videos
from prism.ingestion.listing import Layout, Listing, VideoSource, videos_under
from prism.ingestion.options import IngestConfig
from prism.ingestion.plan import make_plan
from prism.ingestion.splits import assign_splits, recording, said_of_recordings
from prism.testing import check_layout


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def found(source: Path, layout: str = "auto") -> list[tuple[str, str, str]]:
    return [
        (video.relative, video.label, video.split)
        for video in list_videos(source, IngestConfig(layout=layout)).videos
    ]


def test_class_folders_hold_videos_of_every_container(tmp_path):
    touch(tmp_path, "walk/b.AVI", "walk/a.mp4", "jump/c.webm", "jump/d.mkv", "jump/e.mov")
    assert found(tmp_path) == [
        ("jump/c.webm", "jump", ""),
        ("jump/d.mkv", "jump", ""),
        ("jump/e.mov", "jump", ""),
        ("walk/a.mp4", "walk", ""),
        ("walk/b.AVI", "walk", ""),
    ]


@pytest.mark.parametrize("split", ["", "train/"])
def test_what_is_passed_over_in_class_folders_is_said(tmp_path, split):
    touch(tmp_path, f"{split}jump/a.mp4", f"{split}walk/b.mp4", f"{split}walk/.hidden")
    assert list_videos(tmp_path).notes == []
    touch(tmp_path, f"{split}jump/z.m4v")
    (note,) = list_videos(tmp_path).notes
    assert note.startswith("Passed over 1 file or folder of classes that are no video (.mp4, ")
    touch(tmp_path, f"{split}jump/deep/c.m4v")
    (note,) = list_videos(tmp_path).notes
    assert note.startswith("Passed over 2 files and folders of classes ")
    assert note.endswith(f" and hold no frames, such as '{split}jump/deep'.")
    assert len(list_videos(tmp_path).videos) == 2


NESTED = "it lies in a folder within a class folder, which is not searched."


@pytest.mark.parametrize("split", ["", "train/"])
def test_videos_in_folders_within_class_folders_are_counted_and_listed_as_skipped(tmp_path, split):
    touch(tmp_path, f"{split}jump/a.mp4", f"{split}walk/b.mp4")
    touch(
        tmp_path,
        *(f"{split}walk/{name}" for name in ("deep/c.mp4", "deep/d/e.avi", "deep/f/1.jpg", "deep/.g.mp4")),
    )
    touch(tmp_path, f"{split}jump/notes/readme.txt")
    listing = list_videos(tmp_path)
    assert [video.relative for video in listing.videos] == [f"{split}jump/a.mp4", f"{split}walk/b.mp4"]
    deep = [f"{split}walk/deep/{name}" for name in ("c.mp4", "d/e.avi", "f")]
    assert listing.skipped == dict.fromkeys(deep, NESTED)
    assert listing.passed_over == [f"{split}jump/notes"]
    assert listing.notes[0] == (
        f"Caution: 3 videos lie in folders within class folders, which are not searched, such as '{deep[0]}'. "
        "Move them into the folder of their class, or name them in a .csv list."
    )


def test_class_folders_from_which_no_video_comes_are_named(tmp_path):
    touch(tmp_path, "jump/a.mp4", "walk/b.mp4", "run/c.m4v", "run/d.wmv")
    (tmp_path / "swim").mkdir()
    caution, _ = list_videos(tmp_path).notes
    assert caution == (
        "Caution: no video comes from 2 class folders ('run', 'swim'). Without any, a class is no part of the "
        "task."
    )
    touch(tmp_path / "splits", "train/jump/a.mp4", "test/jump/b.mp4", "train/walk/c.mp4")
    for name in ("train/run", "test/run", "test/walk", "val/walk"):
        (tmp_path / "splits" / name).mkdir(parents=True)
    (caution,) = list_videos(tmp_path / "splits").notes
    names = "'test/run', 'test/walk', 'train/run', …"
    assert caution.startswith(f"Caution: no video comes from 4 class folders ({names}). ")


def test_thumbnails_beside_videos_make_no_video_of_their_folder(tmp_path):
    videos = [f"mine/{label}/{k}.mp4" for label in ("jump", "walk") for k in range(2)]
    touch(tmp_path, *videos, *(f"mine/{label}/{k}.jpg" for label in ("jump", "walk") for k in range(2)))
    touch(tmp_path, "yours/run/0.mp4", "yours/run/0.jpg", "yours/frames/0.jpg", "yours/a.mp4")
    listing = list_videos(tmp_path)
    assert [video.relative for video in listing.videos] == ["yours/a.mp4", "yours/frames"]
    assert listing.skipped == dict.fromkeys([*videos, "yours/run/0.mp4"], NESTED)
    assert [path.name for path in videos_under(tmp_path / "mine", [])] == ["0.mp4", "1.mp4"] * 2


LOOSE = "it lies beside the class folders, so its class is not known."


@pytest.mark.parametrize("loose", [["x.mp4"], ["train/x.avi"], ["train/x.mp4", "y.webm"]])
def test_videos_beside_class_folders_are_counted_and_listed_as_skipped(tmp_path, loose):
    touch(tmp_path, "train/jump/a.mp4", "test/walk/b.mp4", "train/readme.txt", *loose)
    listing = list_videos(tmp_path)
    assert [video.relative for video in listing.videos] == ["test/walk/b.mp4", "train/jump/a.mp4"]
    assert listing.skipped == dict.fromkeys(loose, LOOSE)
    what = "1 video lies" if len(loose) == 1 else "2 videos lie"
    assert listing.notes == [
        f"Caution: {what} beside the class folders, so that no class is known, such as '{loose[0]}'. Move them "
        "into the folder of their class, or name them in a .csv list."
    ]


def test_a_split_folder_of_videos_without_classes_is_explained(tmp_path):
    touch(tmp_path, "train/a.mp4", "test/b.mp4")
    said = rf"has no videos that can be used \('test/b\.mp4': {LOOSE[:-1]}\)\. Expected <class>/<video>"
    with pytest.raises(SourceError, match=said):
        found(tmp_path)


def test_a_source_whose_classes_lie_deeper_is_told_which_folder_to_name(tmp_path):
    touch(tmp_path, *(f"sports/{label}/{k}.mp4" for label in ("jump", "run", "walk") for k in range(3)))

    def said(count: int, first: str) -> str:
        lies = f"{count} in folders within these, such as '{first}/0.mp4'"
        return f"source '{tmp_path}' has no videos in class folders, but {lies}. "

    others = "ove them into the folders of their classes, or name them in a .csv list."
    with pytest.raises(SourceError) as error:
        found(tmp_path)
    to_name = f"Name '{tmp_path / 'sports'}', the folder above the classes; or m{others}"
    assert str(error.value) == said(9, "sports/jump") + to_name
    assert len(found(tmp_path / "sports")) == 9
    touch(tmp_path, "music/sing/0.mp4")
    with pytest.raises(SourceError) as error:
        found(tmp_path)
    assert str(error.value) == f"{said(10, 'music/sing')}M{others}"


def test_a_class_that_is_missing_because_its_videos_lie_deeper_is_explained(tmp_path):
    touch(tmp_path, "right/b.mp4", "left/deep/a.mp4")
    said = r"tell apart\. Folders within class folders are not searched \('left/deep/a\.mp4'\)\.$"
    with pytest.raises(SourceError, match=said):
        make_plan(tmp_path, IngestConfig())


def test_split_folders_name_the_split(tmp_path):
    touch(tmp_path, "train/jump/a.mp4", "validation/jump/b.mp4", "test/walk/c.mp4")
    assert found(tmp_path) == [
        ("test/walk/c.mp4", "walk", "test"),
        ("train/jump/a.mp4", "jump", "train"),
        ("validation/jump/b.mp4", "jump", "val"),
    ]


def test_a_train_folder_alone_is_a_split(tmp_path):
    touch(tmp_path, "train/jump/a.mp4", "train/walk/b.mp4")
    assert {split for _, _, split in found(tmp_path)} == {"train"}


def test_a_class_may_be_called_train(tmp_path):
    touch(tmp_path, "train/a.mp4", "bus/b.mp4")
    assert found(tmp_path) == [("bus/b.mp4", "bus", ""), ("train/a.mp4", "train", "")]
    touch(tmp_path, "test/c.mp4")
    assert ("test/c.mp4", "test", "") in found(tmp_path, "classes")


def test_videos_beside_split_folders_are_refused_but_other_folders_are_not(tmp_path):
    touch(tmp_path, "train/jump/a.mp4", "test/jump/b.mp4", "annotations/list.txt")
    assert len(found(tmp_path)) == 2
    touch(tmp_path, "extra/c.mp4")
    with pytest.raises(
        SourceError, match=r"also 'extra/c\.mp4', which is in none\. Move it, or choose --layout classes"
    ):
        found(tmp_path)


def test_folders_of_frames_are_videos(tmp_path):
    touch(tmp_path, "jump/one/1.jpg", "jump/one/2.jpg", "walk/two/1.PNG", "walk/none/readme.txt", "walk/three.mp4")
    assert [relative for relative, _, _ in found(tmp_path)] == ["jump/one", "walk/three.mp4", "walk/two"]
    split = touch(tmp_path / "split", "train/jump/one/1.jpg", "test/jump/two/1.jpg")
    assert found(split) == [("test/jump/two", "jump", "test"), ("train/jump/one", "jump", "train")]


def test_hidden_and_other_files_are_passed_over(tmp_path):
    touch(tmp_path, "jump/a.mp4", "jump/.b.mp4", "jump/c.txt", ".git/d.mp4", "readme.md", "prism.json")
    assert [relative for relative, _, _ in found(tmp_path)] == ["jump/a.mp4"]


def write_list(root: Path, text: str, encoding: str = "utf-8") -> Path:
    path = root / "list.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_a_list_names_paths_labels_and_splits(tmp_path):
    touch(tmp_path, "x/a.mp4", "b.avi")
    path = write_list(tmp_path, "split,extra,label,path\ntrain,1,jump,x/a.mp4\nvalidation,2,walk,./b.avi\n")
    assert found(path) == [("b.avi", "walk", "val"), ("x/a.mp4", "jump", "train")]
    assert list_videos(path).videos[1].path == tmp_path / "x/a.mp4"


def test_a_list_from_another_system_is_read(tmp_path):
    text = '\ufeffpath,label,split\r\n"a, b.mp4",jump,train\r\n\r\nc.mp4,"walk",test\r\n'
    assert found(write_list(tmp_path, text)) == [("a, b.mp4", "jump", "train"), ("c.mp4", "walk", "test")]


def test_a_list_with_semicolons_is_read_whether_it_or_its_folder_is_named(tmp_path):
    touch(tmp_path, "jump/a.mp4", "walk/b, c.mp4")
    path = write_list(tmp_path, "path;label;split\njump/a.mp4;leap;test\nwalk/b, c.mp4;walk;train\n")
    assert found(path) == found(tmp_path) == [("jump/a.mp4", "leap", "test"), ("walk/b, c.mp4", "walk", "train")]


def test_classes_that_only_capitals_tell_apart_are_pointed_out(tmp_path):
    touch(tmp_path, "jump/a.mp4", "Jump/b.mp4", "JUMP/c.mp4", "walk/d.mp4")
    (note,) = list_videos(tmp_path).notes
    assert note.startswith("Caution: 'JUMP' and 'Jump' and 'jump' differ only in capitals")
    assert len({video.label for video in list_videos(tmp_path).videos}) == 4


def test_classes_that_only_a_unicode_form_tells_apart_are_pointed_out(tmp_path):
    labels = [normalize(form, "café") for form in ("NFC", "NFD")]
    path = write_list(
        tmp_path, "".join(["path,label\n", *(f"{k}.mp4,{label}\n" for k, label in enumerate(labels))])
    )
    (note,) = list_videos(path).notes
    assert note.endswith(
        "differ only in capitals or in the Unicode form of their letters, but each is a class of its own. Rename "
        "one if they are the same."
    )


def test_a_folder_with_one_list_is_read_by_it(tmp_path):
    touch(tmp_path, "jump/a.mp4", "walk/b.mp4")
    write_list(tmp_path, "path,label,split\njump/a.mp4,leap,test\n")
    assert found(tmp_path) == [("jump/a.mp4", "leap", "test")]
    assert len(found(tmp_path, "classes")) == 2
    (tmp_path / "other.csv").write_text("name,count\n")
    assert len(found(tmp_path)) == 1
    (tmp_path / "other.csv").write_text("path,label,split\n")
    with pytest.raises(SourceError, match=r"several lists of videos \(list\.csv, other\.csv\)"):
        found(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,split\na.mp4,train\n", "has no column 'label', only path, split."),
        ("path;split\na.mp4;train\n", "has no column 'label', only path, split."),
        ("path|label|split\n", "has no column 'path', only path|label|split."),
        ("", "has no column 'path', only nothing."),
        ("path,label,split,Label\n", "has 2 columns 'label'."),
        ("path,label,split,group,Group\n", "has 2 columns 'group'."),
        ("path,label,split,Split\n", "has 2 columns 'split'."),
        ("path,label,split\n../a.mp4,jump,train\n", "line 2 of * has path '../a.mp4', which lies outside"),
        ("path,label,split\nx/../../a.mp4,jump,train\n", "which lies outside the list's folder."),
        ("path,label,split\n/etc/a.mp4,jump,train\n", "has path '/etc/a.mp4', which lies outside"),
        (
            "path,label,split\na.mp4,jump,dev\n",
            "has split 'dev', but it must be one of train, val, validation, test.",
        ),
        ("path,label,split\na.mp4,,train\n", "line 2 of * has no label."),
        (
            "path,label,split\na.mp4,jump,train\nb.mp4,jump\n",
            "line 3 of * has no split, but line 2 has one. Fill all cells, or leave out the column.",
        ),
        (
            "path,label,split\na.mp4,jump,\nb.mp4,jump,\nc.mp4,jump,test\n",
            "line 2 of * has no split, but line 4 has one. Fill all cells, or leave out the column.",
        ),
        (
            "path,label,split\na.mp4,jump,train\nb/../a.mp4,walk,test\n",
            "line 3 of * lists 'a.mp4' again, after line 2.",
        ),
        ("path,label,split\n", "has no videos."),
    ],
)
def test_a_wrong_list_gets_one_sentence(tmp_path, text, message):
    with pytest.raises(SourceError) as error:
        found(write_list(tmp_path, text))
    assert re.search(re.escape(message).replace(r"\*", ".*"), str(error.value))


@pytest.mark.parametrize("split", ["", ",split"])
def test_a_list_without_splits_is_cut_as_a_folder_is_by_recording_where_it_names_them(tmp_path, split):
    names = [f"{label}/{k}.mp4" for label in ("jump", "walk") for k in range(10)]
    touch(tmp_path / "videos", *names)
    rows = [f"{name},{name[:4]}{',' * bool(split)}" for name in names]
    path = write_list(tmp_path / "videos", "\n".join([f"path,label{split}", *rows]))
    config = IngestConfig(val_fraction=0.3)
    of_list = make_plan(path, config).videos
    assert of_list == make_plan(tmp_path / "videos", replace(config, layout="classes")).videos
    assert Counter(video.split for video in of_list) == {"train": 12, "val": 4, "test": 4}
    grouped = [f"{row},{int(row[5]) // 2}" for row in rows]
    path = write_list(tmp_path / "videos", "\n".join([f"path,label{split},group", *grouped]))
    homes: dict[tuple[str, str], set[str]] = {}
    for video in make_plan(path, config).videos:
        homes.setdefault((video.label, video.recording), set()).add(video.split)
    assert Counter(map(tuple, homes.values())) == {("train",): 6, ("val",): 2, ("test",): 2}


def test_a_folder_is_read_by_a_list_only_if_it_has_all_columns(tmp_path):
    touch(tmp_path, "jump/a.mp4", "walk/b.mp4")
    path = write_list(tmp_path, "path,label\njump/a.mp4,leap\n")
    assert len(found(tmp_path)) == 2
    assert found(path) == [("jump/a.mp4", "leap", "")]


def test_a_list_may_name_absolute_paths_in_its_own_folder(tmp_path, monkeypatch):
    root = touch(tmp_path / "videos", "x/a.mp4", "b.avi")
    path = write_list(root, f"path,label,split\n{root}/x/a.mp4,jump,train\n{root}/x/../b.avi,walk,test\n")
    listed = [("b.avi", "walk", "test"), ("x/a.mp4", "jump", "train")]
    assert found(path) == listed
    monkeypatch.chdir(root)
    assert found(Path("list.csv")) == listed
    (tmp_path / "link").symlink_to(root)
    assert found(tmp_path / "link/list.csv") == listed
    write_list(root, f"path,label,split\nb.avi,walk,test\n{root}/b.avi,walk,test\n")
    with pytest.raises(SourceError, match=r"line 3 of .* lists 'b\.avi' again, after line 2"):
        found(path)


def test_a_list_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "list.csv").write_bytes(b"path,label,split\n\xff\xfe\x00,a,train\n")
    with pytest.raises(SourceError, match="is not UTF-8 text"):
        found(tmp_path / "list.csv")


def test_a_source_that_holds_no_videos_gets_one_sentence(tmp_path):
    with pytest.raises(SourceError, match="does not exist"):
        found(tmp_path / "missing")
    with pytest.raises(SourceError, match=r"has no videos: the folder is empty\. Expected <class>/<video>"):
        found(tmp_path)
    with pytest.raises(SourceError, match=r"has no videos, but 1 other file\."):
        found(touch(tmp_path, "jump/readme.txt"))
    with pytest.raises(SourceError, match=r"no class folders, but 1 videos beside each other\. Move each into"):
        found(touch(tmp_path, "a.mp4"))
    with pytest.raises(SourceError, match=r"is a file, but it must be a folder of videos or a \.csv list"):
        found(tmp_path / "a.mp4")
    with pytest.raises(SourceError, match=r"needs the \.csv file itself"):
        found(tmp_path, "csv")
    with pytest.raises(SourceError, match="needs a folder"):
        found(write_list(tmp_path, "path,label,split\n"), "classes")


def test_a_store_is_no_source(store):
    with pytest.raises(
        SourceError, match=r"source '.*' is a clip store already\. Name the videos that it was made"
    ):
        found(store.path)


def test_a_link_that_leaves_the_source_is_skipped_and_one_inside_is_not(tmp_path):
    root = touch(tmp_path / "root", "jump/a.mp4", "walk/b.mp4")
    touch(tmp_path, "secret.mp4")
    (root / "jump/out.mp4").symlink_to(tmp_path / "secret.mp4")
    (root / "jump/in.mp4").symlink_to(root / "walk/b.mp4")
    listing = list_videos(root)
    assert [video.relative for video in listing.videos] == ["jump/a.mp4", "jump/in.mp4", "walk/b.mp4"]
    assert listing.skipped == {"jump/out.mp4": "it is a link that leaves the source."}


def test_a_link_to_itself_does_not_end_the_run(tmp_path):
    touch(tmp_path, "jump/a.mp4", "walk/b.mp4")
    (tmp_path / "jump/self.mp4").symlink_to("self.mp4")
    found = [video.relative for video in make_plan(tmp_path, IngestConfig()).videos]
    assert sorted(found) == ["jump/a.mp4", "jump/self.mp4", "walk/b.mp4"]


def test_folders_that_are_links_are_not_searched_and_are_named(tmp_path):
    root = touch(tmp_path, "train/jump/a.mp4", "train/walk/frames/0.jpg", "test/jump/c.mp4")
    (root / "val").symlink_to(root / "train")
    (root / "train/leap").symlink_to(root / "train/jump")
    (root / "train/walk/again").symlink_to(root / "train/walk/frames")
    for source, skipped in (
        (root, ["train/leap", "train/walk/again", "val"]),
        (root / "train", ["leap", "walk/again"]),
    ):
        listing = list_videos(source)
        assert listing.skipped == dict.fromkeys(skipped, "it is a folder that is a link, which is not searched.")
        assert not {video.relative for video in listing.videos} & set(skipped)
        (note,) = listing.notes
        assert note.startswith(
            f"Caution: folders that are links are not searched: {len(skipped)}, such as '{skipped[0]}'."
        )


def test_a_class_that_is_missing_because_its_folder_is_a_link_is_explained(tmp_path):
    touch(tmp_path, "elsewhere/a.mp4", "root/right/b.mp4")
    (tmp_path / "root/left").symlink_to(tmp_path / "elsewhere")
    said = r"only class 'right', but .* tell apart\. Linked folders are not searched \('left'\)\.$"
    with pytest.raises(SourceError, match=said):
        make_plan(tmp_path / "root", IngestConfig())
    (tmp_path / "root/left").unlink()
    with pytest.raises(SourceError, match=r"tell apart\.$"):
        make_plan(tmp_path / "root", IngestConfig())


def test_copies_in_two_splits_are_counted_and_two_are_named(tmp_path):
    root, config = tmp_path / "root", IngestConfig(val_fraction=0)
    # All of one size, and of one beginning.
    for split, label, number in itertools.product(("train", "test"), "ab", (1, 2)):
        file = root / split / label / f"{number}.mp4"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(splits.BEGINNING) + f"{split} {label} {number}".encode()[-9:].rjust(9))
    assert not make_plan(root, config).listing.notes
    shutil.copy(root / "train/a/1.mp4", root / "train/a/3.mp4")
    assert not make_plan(root, config).listing.notes
    shutil.copy(root / "train/a/1.mp4", root / "test/a/1.mp4")
    (note,) = make_plan(root, config).listing.notes
    assert note == (
        "Caution: a video is a copy of one in another split, byte for byte, such as 'test/a/1.mp4' (test) and "
        "'train/a/1.mp4' (train). A network is then scored on what it has seen. Remove one."
    )
    shutil.copy(root / "train/b/2.mp4", root / "test/b/3.mp4")
    (note,) = make_plan(root, config).listing.notes
    assert note.startswith("Caution: 2 of 10 videos are copies of one in another split, byte for byte, such as")


def test_no_link_is_followed_to_compare_files(tmp_path):
    root = touch(
        tmp_path / "root", *(f"{split}/{label}/{split}.mp4" for split in ("train", "test") for label in "ab")
    )
    (root / "train/a/1.mp4").write_bytes(b"alike")
    (tmp_path / "elsewhere.mp4").write_bytes(b"alike")
    (root / "test/a/1.mp4").symlink_to(tmp_path / "elsewhere.mp4")
    assert not make_plan(root, IngestConfig(val_fraction=0)).listing.notes
    (root / "test/a/1.mp4").unlink()
    (root / "test/a/1.mp4").write_bytes(b"alike")
    assert len(make_plan(root, IngestConfig(val_fraction=0)).listing.notes) == 1


def test_empty_files_are_no_copies_of_each_other(tmp_path):
    root = touch(
        tmp_path, *(f"{split}/{label}/a.mp4" for split in ("train", "test") for label in ("jump", "walk"))
    )
    assert not make_plan(root, IngestConfig(val_fraction=0)).listing.notes


def test_one_file_under_two_names_is_pointed_out_and_refused_in_two_splits(tmp_path):
    root = touch(
        tmp_path, *(f"{split}/{label}/a.mp4" for split in ("train", "test") for label in ("jump", "walk"))
    )
    (root / "train/jump/b.mp4").symlink_to(root / "train/jump/a.mp4")
    config = IngestConfig(val_fraction=0)
    (note,) = make_plan(root, config).listing.notes
    assert re.search(r"1 of 5 videos .* 'train/jump/b\.mp4' that of 'train/jump/a\.mp4'\.", note)
    (root / "test/jump/c.mp4").symlink_to(root / "train/jump/a.mp4")
    said = r"'train/jump/a\.mp4' \(train\) and 'test/jump/c\.mp4' \(test\) are one and the same file\. Keep one"
    with pytest.raises(SourceError, match=said):
        make_plan(root, config)


def test_the_source_itself_may_be_a_link(tmp_path):
    touch(tmp_path / "root", "jump/a.mp4")
    (tmp_path / "link").symlink_to(tmp_path / "root")
    assert len(found(tmp_path / "link")) == 1


def test_a_name_that_is_not_text_is_skipped(tmp_path):
    touch(tmp_path, "jump/a.mp4")
    try:
        (tmp_path / os.fsdecode(b"jump/\xff.mp4")).touch()
    except OSError:
        pytest.skip("this file system allows only UTF-8 names")
    assert list_videos(tmp_path).skipped == {"jump/\\xff.mp4": "its name is not valid UTF-8."}


# Somebody else's layout


@dataclass(frozen=True)
class Prefixes(Layout):
    """The class is the start of a file name."""

    separator: str = "_"

    def videos_of(self, source: Path, config: IngestConfig) -> Listing:
        listing = Listing(source)
        for path in sorted(source.glob("*.mp4")):
            listing.add(path, path.name.split(self.separator)[0], "")
        return listing


BY_NAME = f"{__name__}:Prefixes"


@pytest.mark.parametrize(
    ("layout", "recorded"),
    [
        (Prefixes(), BY_NAME),
        (Prefixes, BY_NAME),
        (BY_NAME, BY_NAME),
        (Prefixes(separator="-"), f"{BY_NAME}(separator='-')"),
        (f"{BY_NAME}(separator='-')", f"{BY_NAME}(separator='-')"),
    ],
)
def test_a_strangers_layout_is_used_and_recorded_by_its_name(layout, recorded, tmp_path):
    folder = write_classes(tmp_path / "given", videos=2, num_frames=3)
    (tmp_path / "videos").mkdir()
    separator = "-" if "-" in recorded else "_"
    for video in folder.rglob("*.mp4"):
        video.rename(tmp_path / "videos" / f"{video.parent.name}{separator}{video.name}")
    store = prism.ingest(
        *(tmp_path / "videos", tmp_path / "store"), layout=layout, num_frames=2, size=8, workers=1, progress=False
    )
    assert list(store.classes) == sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    assert store.header.settings["layout"] == recorded


@dataclass(frozen=True)
class Broken(Layout):
    """Lists one video."""

    video: str = "a.mp4"
    label: str = "jump"
    split: str = "train"
    times: int = 1

    def videos_of(self, source: Path, config: IngestConfig) -> Listing:
        listing = Listing(source)
        for _ in range(self.times):
            listing.add(source / self.video, self.label, self.split)
        return listing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("split='dev'", "gives 'a.mp4' the split 'dev', but it must be one of train, val, test, or empty."),
        ("split=None", "gives 'a.mp4' the split None, but it must be one of train, val, test, or empty."),
        ("label=3", "gives 'a.mp4' the class 3, but it must be a text."),
        ("label=''", "gives 'a.mp4' the class '', but it must be a text."),
        ("times=2", "gives 'a.mp4' more than one place, but a video is listed once."),
    ],
)
def test_a_strangers_layout_that_lists_wrongly_is_named(tmp_path, options, message):
    with pytest.raises(SourceError, match=re.escape(f"layout {__name__}:Broken({options}) {message}")):
        found(touch(tmp_path, "a.mp4"), f"{__name__}:Broken({options})")


@dataclass(frozen=True)
class Giving(Layout):
    """Gives something else than a listing, or an empty one."""

    gives: str

    def videos_of(self, source: Path, config: IngestConfig) -> Listing:
        empty, of_paths = Listing(source), Listing(source)
        skipping = Listing(source, skipped={"a.mp4": "it is too old."})
        of_paths.videos.append(source / "a.mp4")  # type: ignore[arg-type]
        choices = {"nothing": None, "list": [], "paths": of_paths, "empty": empty, "skipping": skipping}
        return choices[self.gives]  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("gives", "error", "message"),
    [
        ("nothing", ConfigError, r"gives a NoneType, not a Listing\. docs"),
        ("list", ConfigError, r"gives a list, not a Listing\. docs"),
        ("paths", ConfigError, r"lists a \w*Path; Listing\.add makes the entries\. docs"),
        ("empty", SourceError, r"finds no videos in source '.*'\.$"),
        (
            "skipping",
            SourceError,
            r"finds no videos that can be used \('a\.mp4': it is too old\) in source '.*'\.$",
        ),
    ],
)
def test_a_strangers_layout_that_lists_no_videos_is_named(tmp_path, gives, error, message):
    touch(tmp_path, "a.mp4")
    layout = f"{__name__}:Giving(gives='{gives}')"
    with pytest.raises(error, match=rf"^layout {re.escape(layout)} {message}"):
        found(tmp_path, layout)
    with pytest.raises(AssertionError, match=re.escape(layout) if error is ConfigError else "finds no video in"):
        check_layout(Giving(gives=gives), tmp_path)


def test_a_strangers_layout_cannot_list_what_lies_outside_the_source(tmp_path):
    with pytest.raises(SourceError, match=r"^'/etc/a\.mp4' is listed, but lies outside the source '.*'\.$"):
        found(tmp_path, f"{__name__}:Broken(video='/etc/a.mp4')")


def test_a_layout_refuses_options_that_it_has_no_use_for():
    for option, value in {"official_split": 2, "train_list": "all-but-test", "annotations": "lists"}.items():
        with pytest.raises(ConfigError, match=f"^ingest.{option} = {value!r}, but it must be "):
            IngestConfig(layout=Prefixes(), **{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("class", "layout = 'class', but it must be one of auto, classes, splits, csv, ucf101"),
        ("prism.nowhere:Layout", "the layout 'prism.nowhere:Layout' cannot be imported"),
        (f"{__name__}:Postfixes", f"module '{__name__}' has no layout 'Postfixes'"),
        (f"{BY_NAME}(sep='-')", "cannot be made: .* unexpected keyword argument 'sep'"),
        (f"{__name__}:touch", "touch' has no videos_of"),
    ],
)
def test_a_layout_that_is_none_is_refused_in_one_sentence(layout, message):
    with pytest.raises(ConfigError, match=message):
        IngestConfig(layout=layout)


def test_layouts_need_no_heavy_library():
    """The options make the layout that they name, and `prism --help` makes the options."""
    code = "import sys, prism.ingestion.options as o; o.IngestConfig(layout='hmdb51'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert "prism.ingestion.official" in modules
    assert not modules & {"torch", "numpy", "av", "PIL", "safetensors"}


# Splits


def videos(label: str, count: int, split: str = "", groups: int = 0) -> list[VideoSource]:
    names = [
        f"{label}/v_g{k % groups:02d}_c{k:02d}.mp4" if groups else f"{label}/{k:03d}.mp4" for k in range(count)
    ]
    return [VideoSource(Path(name), name, label, split) for name in names]


GROUPS = r"_(g\d+)_"
COUNTS = st.lists(st.integers(1, 40), min_size=2, max_size=5)
SHARE = st.floats(0, 0.99)


@given(COUNTS, SHARE, SHARE, st.integers(0, 8), st.integers(0, 2**31))
def test_cutting_keeps_recordings_whole_and_every_class_in_train(counts, val, test, groups, seed):
    config = IngestConfig(val_fraction=val, test_fraction=test, group_pattern=GROUPS if groups else "", seed=seed)
    given_videos = [v for c, count in enumerate(counts) for v in videos(f"class{c}", count, groups=groups)]
    assigned = assign_splits(given_videos, config)
    assert [replace(video, split="") for video in assigned] == given_videos
    homes: dict[tuple[str, str], set[str]] = {}
    for video in assigned:
        homes.setdefault((video.label, recording(video, config.group_pattern)), set()).add(video.split)
    assert all(len(splits) == 1 for splits in homes.values())
    assert {video.label for video in assigned if video.split == "train"} == {
        f"class{c}" for c in range(len(counts))
    }
    assert assign_splits(given_videos[::-1], config) == assigned[::-1]


def test_the_shares_are_of_each_class():
    config = IngestConfig(val_fraction=0.25, test_fraction=0.2)
    assigned = assign_splits(videos("jump", 100) + videos("walk", 10), config)
    counts = Counter((video.label, video.split) for video in assigned)
    assert counts == {
        ("jump", "train"): 60,
        ("jump", "val"): 20,
        ("jump", "test"): 20,
        ("walk", "train"): 6,
        ("walk", "val"): 2,
        ("walk", "test"): 2,
    }


def test_splits_that_the_source_names_stay():
    given_videos = [
        video
        for label in ("jump", "walk")
        for split in ("train", "val", "test")
        for video in [replace(v, relative=f"{split}/{v.relative}") for v in videos(label, 5, split)]
    ]
    assert assign_splits(given_videos, IngestConfig()) == given_videos


def test_without_shares_everything_is_for_training():
    config = IngestConfig(val_fraction=0, test_fraction=0)
    assert {video.split for video in assign_splits(videos("jump", 9) + videos("walk", 9), config)} == {"train"}


def test_another_seed_cuts_elsewhere():
    given_videos = videos("jump", 40) + videos("walk", 40)
    assert assign_splits(given_videos, IngestConfig(seed=1)) != assign_splits(given_videos, IngestConfig(seed=2))


def test_classes_that_cannot_be_learned_are_named():
    with pytest.raises(SourceError, match="only class 'jump', but it takes at least two"):
        assign_splits(videos("jump", 5), IngestConfig())
    walk = videos("walk", 1, "val") + videos("walk", 2, "test")
    with pytest.raises(SourceError, match="class 'walk' has videos in test and val, but none in train"):
        assign_splits(videos("jump", 5, "train") + walk, IngestConfig())


def ucf_names(recordings: int) -> list[VideoSource]:
    names = [
        f"{label}/v_{label}_g{g:02}_c{c:02}.avi" for label in ("a", "b") for g in range(recordings) for c in (1, 2)
    ]
    return [VideoSource(Path(name), name, name[0], "") for name in names]


def test_recordings_in_two_splits_are_warned_of_by_their_number_with_the_option_that_keeps_them_whole():
    listed, config = ucf_names(10), IngestConfig()
    said = said_of_recordings(listed, assign_splits(listed, config), config)
    assert re.match(r"Caution: \d+ of 20 recordings ", said)
    option = said.partition("--group-pattern '")[2].removesuffix("'.")
    whole = IngestConfig(group_pattern=option)
    assert said_of_recordings(listed, assign_splits(listed, whole), whole) == ""
    assert all(
        len({v.split for v in pair}) == 1 for pair in zip(*[iter(assign_splits(listed, whole))] * 2, strict=True)
    )


@pytest.mark.parametrize("header", ["path,label,split,group", "Path, LABEL, Split,Group "])
def test_a_list_may_name_recordings_and_they_are_set_apart_whole(tmp_path, header):
    rows = [f"{label}/{r}{c}.mp4,{label},train,{r}" for label in ("jump", "walk") for r in "pqrst" for c in "12"]
    path = write_list(tmp_path, "\n".join([header, *rows, "jump/alone.mp4,jump,test,"]))
    config = IngestConfig(val_fraction=0.4)
    listed = list_videos(path).videos
    splits_of: dict[tuple[str, str], set[str]] = {}
    for video in assign_splits(listed, config):
        splits_of.setdefault((video.label, recording(video, "")), set()).add(video.split)
    assert Counter(map(tuple, splits_of.values())) == {("train",): 6, ("val",): 4, ("test",): 1}
    assert splits_of["jump", "jump/alone.mp4"] == {"test"}


def test_splits_and_recordings_of_the_source_and_names_without_recordings_are_not_warned_of():
    config = IngestConfig(val_fraction=0)
    named = [replace(video, split=split) for video, split in zip(ucf_names(4), ["train", "test"] * 8, strict=True)]
    assert said_of_recordings(named, assign_splits(named, config), config) == ""
    listed = [replace(video, recording=video.relative[-7:-4]) for video in ucf_names(10)]
    assert said_of_recordings(listed, assign_splits(listed, IngestConfig()), IngestConfig()) == ""
    plain = videos("jump", 5) + videos("walk", 5)
    assert said_of_recordings(plain, assign_splits(plain, config), config) == ""


def test_a_list_that_parts_a_recording_is_warned_of(tmp_path):
    rows = ["a/0.mp4,a,train,g1", "a/1.mp4,a,test,g1", "b/0.mp4,b,train,g1", "b/1.mp4,b,test,g2"]
    listed = list_videos(write_list(tmp_path, "\n".join(["path,label,split,group", *rows]))).videos
    said = said_of_recordings(listed, assign_splits(listed, IngestConfig()), IngestConfig())
    assert said.startswith("Caution: 1 of 3 recordings that the source names have clips in more than one of its")


def test_splits_of_the_source_that_part_a_recording_of_the_pattern_are_warned_of():
    listed = [
        VideoSource(Path(name), name, name[0], split, recording="of the list")
        for name, split in (
            ("a_g1_c1", "train"),
            ("a_g1_c2", "test"),
            ("b_g1_c1", "train"),
            ("b_g2_c1", "test"),
            ("b_no", "test"),
        )
    ]
    config = IngestConfig(group_pattern=GROUPS)
    said = said_of_recordings(listed, assign_splits(listed, config), config)
    assert said == (
        "Caution: 1 of 3 recordings that the group pattern names have clips in more than one of the source's "
        "splits. They look alike, so scores will be too high."
    )


def test_a_group_pattern_has_to_match_and_to_have_a_group():
    said = r"finds no recording in path 'walk/000\.mp4'\. Rename it or move it away, or name the videos in a \.csv"
    with pytest.raises(SourceError, match=said):
        assign_splits(videos("jump", 5, groups=2) + videos("walk", 5), IngestConfig(group_pattern=GROUPS))
    uncut = IngestConfig(group_pattern=GROUPS, val_fraction=0, test_fraction=0)
    assert len(assign_splits(videos("jump", 5) + videos("walk", 5), uncut)) == 10
    for pattern in ("(", r"g\d+"):
        with pytest.raises(ConfigError, match=r"must be a regular expression with a group"):
            IngestConfig(group_pattern=pattern)


def test_labels_that_are_all_numbers_are_ordered_as_numbers_from_lists_and_folders(tmp_path):
    names = [f"{label}/{k}.mp4" for label in range(12) for k in range(2)]
    touch(tmp_path, *names)
    rows = [f"{name},{name.split('/')[0]}" for name in names]
    path = write_list(tmp_path, "\n".join(["path,label", *rows]))
    whole = IngestConfig(val_fraction=0, test_fraction=0)
    for source in (path, tmp_path):
        ordered = [video.label for video in make_plan(source, whole).videos]
        assert ordered == [str(label) for label in range(12) for _ in range(2)]
