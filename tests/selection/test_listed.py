"""Clips that another tool has chosen: its list names videos, whatever their paths began with."""

import re
from unicodedata import normalize

import numpy as np
import pytest
import torch

from prism.artifacts.index import ClipSource
from prism.errors import ConfigError, OutputError, SourceError
from prism.selection.select import select
from prism.testing import write_store


@pytest.fixture
def listed(store, tmp_path):
    """Selects by a list of this text, and says the paths that were taken."""

    def taken(text: str, name: str = "list.txt", **options) -> list[str]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return select(store, from_list=tmp_path / name, **options).source["clips"]

    return taken


@pytest.mark.parametrize(
    "text",
    [
        "class1/train3.mp4\nclass0/train2.mp4\nclass1/train0.mp4\n",
        "\ufeff./class1/train3.mp4\r\n\r\nclass0/train2.mp4\r\nclass1/train0.mp4",
        "/data/videos/class1/train3.mp4\n/data/videos/class0/train2.mp4\n/data/videos/class1/train0.mp4",
        "C:\\data\\class1\\train3.mp4\nC:\\data\\class0\\train2.mp4\nC:\\data\\class1\\train0.mp4",
        "class1/train3.mp4 1\nclass0/train2.mp4 0\nclass1/train0.mp4 1\n",
        "filepath,tags\n/v/class1/train3.mp4,a\n/v/class0/train2.mp4,b\n/v/class1/train0.mp4,\n",
        'label,File_Name\n1,"class1/train3.mp4"\n0,"class0/train2.mp4"\n1,"class1/train0.mp4"\n',
        "path,label\nclass1/train3.mp4,1\nclass0/train2.mp4,0\nclass1/train0.mp4,1\n",
        'label;path\n1;class1/train3.mp4\n0; "class0/train2.mp4"\n1;class1/train0.mp4\n',
    ],
    ids=[
        "text",
        "mark and empty lines",
        "absolute",
        "Windows",
        "labels",
        "FiftyOne",
        "Hugging Face",
        "csv",
        "semicolons",
    ],
)
def test_lists_of_many_kinds_name_the_same_clips_by_class_and_in_their_order(listed, text):
    assert listed(text) == ["class0/train2.mp4", "class1/train3.mp4", "class1/train0.mp4"]


def test_the_clips_are_those_of_the_store_and_the_set_says_where_they_come_from(store, tmp_path):
    (tmp_path / "mine.txt").write_text("class1/train1.mp4\nclass0/train0.mp4\nclass1/train3.mp4\n")
    chosen = select(store, from_list=tmp_path / "mine.txt", output=tmp_path / "set")
    assert chosen.labels.tolist() == [0, 1, 1]
    assert torch.equal((255 * chosen.render()).round().byte(), store.clips("train").frames[[0, 5, 7]])
    config = {"from_list": "mine.txt", "storage": "uint8", "quality": 35, "takes": 1}
    assert chosen.source["method"] == "list"
    assert chosen.source["config"] == config


def test_a_path_may_be_shorter_than_that_of_the_store_where_it_fits_one_video(make_store, tmp_path):
    store = make_store(classes=["a", "b"])
    (tmp_path / "list").write_text("train3.mp4\n")
    with pytest.raises(SourceError, match=r"'train3.mp4', which may be 'a/train3.mp4' or 'b/train3.mp4'\. Write"):
        select(store, from_list=tmp_path / "list")
    (tmp_path / "list").write_text("x/a/train3.mp4\nb/train3.mp4")
    assert select(store, from_list=tmp_path / "list").labels.tolist() == [0, 1]


def test_a_name_that_ends_like_a_label_is_looked_up_whole_in_every_split_first(tmp_path):
    names = {"train": ("clip", "clip 1"), "test": ("clip 2",)}
    sources = [
        ClipSource(split, label, f"{label}/{name}", 0, 1, 2)
        for split in names
        for label in ("jump", "walk")
        for name in names[split]
    ]
    frames = np.zeros((6, 2, 3, 8, 8), np.uint8)
    store = write_store(tmp_path / "store", ["jump", "walk"], sources, frames)
    (tmp_path / "list").write_text("jump/clip 1\njump/clip 3\nwalk/clip 1 1\nwalk/clip 1\n")
    with pytest.raises(SourceError, match=r"line 4 .* has 'walk/clip 1' again, after line 3"):
        select(store, from_list=tmp_path / "list")
    (tmp_path / "list").write_text("jump/clip 1\njump/clip 3\nwalk/clip 1 1\n")
    assert select(store, from_list=tmp_path / "list").source["clips"] == [
        "jump/clip 1",
        "jump/clip",
        "walk/clip 1",
    ]
    (tmp_path / "list").write_text("jump/clip 2\nwalk/clip 1")
    with pytest.raises(SourceError, match=r"line 1 .* has 'jump/clip 2', which is no training video"):
        select(store, from_list=tmp_path / "list")


def test_a_path_is_known_in_either_unicode_form(make_store, tmp_path):
    composed, decomposed = (normalize(form, "café") for form in ("NFC", "NFD"))
    store = make_store(classes=["a", f"{decomposed}s", composed])
    (tmp_path / "list").write_text(f"a/train0.mp4\n{decomposed}/train1.mp4\n{composed}s/train2.mp4\n")
    taken = select(store, from_list=tmp_path / "list").source["clips"]
    assert taken == ["a/train0.mp4", f"{decomposed}s/train2.mp4", f"{composed}/train1.mp4"]
    both = make_store(classes=[decomposed, composed])
    (tmp_path / "list").write_text(f"{composed}/train0.mp4\n")
    assert select(both, from_list=tmp_path / "list").source["clips"] == [f"{composed}/train0.mp4"]


def test_takes_are_filled_from_the_list(listed, store, tmp_path):
    text = "".join(f"class{label}/train{i}.mp4\n" for label in (1, 0) for i in (3, 0))
    assert len(listed(text, takes=2)) == 4
    assert select(store, from_list=tmp_path / "list.txt", takes=2).labels.tolist() == [0, 1]
    with pytest.raises(ConfigError, match=r"select.takes = 3, but it must be a divisor of 2, the listed clips of"):
        listed(text, takes=3)
    with pytest.raises(ConfigError, match=r"select.takes = 0, but it must be at least 1 with a list\."):
        listed(text, takes=0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no video. Write a path on each line."),
        ("path\n", "names no video."),
        (
            "class0/train0.mp4\nclass0/other.mp4\n",
            "line 2 of '{path}' has 'class0/other.mp4', which the store does",
        ),
        ("path,label\nclass0/train0.mp4,1\nx.mp4,1\n", "line 3 of '{path}' has 'x.mp4', which the store does not"),
        ("class0/test0.mp4\n", "line 1 of '{path}' has 'class0/test0.mp4', which is no training video"),
        ("class0/val0.mp4\n", "which is no training video of the store. Take it out."),
        ("class0/train0.mp4\n/v/class0/train0.mp4\n", "has '/v/class0/train0.mp4' again, after line 1."),
        ("lass0/train0.mp4\n", "which the store does not know"),
        ("label,path\nclass0,class0/train0.mp4\nclass1\n", "line 3 of '{path}' names no video. Write its path."),
        ("label,path\nclass1, \nclass0,class0/train0.mp4\n", "line 2 of '{path}' names no video."),
        ("/\n", "has '/', which the store does not know"),
        (".. 3\n", "which the store does not know"),
    ],
)
def test_a_line_that_names_no_training_video_is_told_in_one_sentence(listed, tmp_path, text, says):
    with pytest.raises(SourceError, match=re.escape(says.format(path=tmp_path / "list.txt"))):
        listed(text, output=tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_list_that_cannot_be_read_is_told(store, tmp_path, name):
    with pytest.raises(SourceError, match=r"cannot be read: .*\. Give a text or CSV file of paths\."):
        select(store, from_list=tmp_path / name)


def test_a_list_that_is_no_text_is_told(store, tmp_path):
    for data in (b"\xff\xfe\x00", b'path\n"' + b"x" * 200_000):
        (tmp_path / "list").write_bytes(data)
        with pytest.raises(SourceError, match="cannot be read"):
            select(store, from_list=tmp_path / "list")


@pytest.mark.parametrize("options", [{"vpc": 2}, {"method": "herding"}, {"seed": 1}])
def test_options_that_choose_are_refused_beside_a_list(listed, options):
    with pytest.raises(ConfigError, match="but it must be left out with a list, which says what is chosen"):
        listed("class0/train0.mp4\n", **options)


def test_a_device_that_is_not_there_is_refused_beside_a_list_as_well(listed, tmp_path):
    with pytest.raises(ConfigError, match="device"):
        listed("class0/train0.mp4\n", device="nonsense", output=tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_a_list_is_never_replaced_by_the_set_that_it_names(store, tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("class0/train0.mp4\nclass1/train0.mp4\n")
    with pytest.raises(OutputError):
        select(store, from_list=path, output=path, overwrite=True)
    assert path.read_text().startswith("class0/")
