"""Official layouts: miniature trees exactly as the authors publish them, with their awkward names and lines."""

import json
import re
from collections import Counter
from pathlib import Path
from unicodedata import normalize

import pytest

from prism.ingestion.listing import MISSING, Listing, VideoSource
from prism.ingestion.official import MINIUCF, VALIDATION_IS_TEST
from prism.ingestion.options import IngestConfig
from prism.ingestion.splits import list_videos, recording
from prism.recipes import read_recipe
from tests.ingestion.test_listing import found, refused, touch


def write(root: Path, files: dict[str, str]) -> Path:
    """Files with their texts, to the byte."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


def listing(source: Path, layout: str, **options: object) -> Listing:
    return list_videos(source, IngestConfig(layout=layout, **options))  # type: ignore[arg-type]


UCF = "ucfTrainTestlist/"
UCF_LISTS = {
    UCF + "trainlist01.txt": (
        "Archery/v_Archery_g08_c01.avi 1\r\n\r\nHandstandPushups/v_HandStandPushups_g08_c01.avi 2\r\n"
    ),
    UCF + "testlist01.txt": "Archery/v_Archery_g01_c01.avi\r\n",
    UCF + "trainlist02.txt": (
        "Archery/v_Archery_g01_c01.avi 1\r\nHandStandPushups/v_HandStandPushups_g08_c01.avi 2\r\n"
    ),
    UCF + "testlist02.txt": "Archery/v_Archery_g08_c01.avi\r\n",
}
UCF_VIDEOS = (
    "Archery/v_Archery_g01_c01.avi",
    "Archery/v_Archery_g08_c01.avi",
    "HandstandPushups/v_HandStandPushups_g08_c01.avi",
)


@pytest.fixture
def ucf(tmp_path) -> Path:
    return touch(write(tmp_path / "ucf", UCF_LISTS), *UCF_VIDEOS)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ucf101_takes_classes_and_splits_from_its_lists(ucf, end):
    write(ucf, {name: text.replace("\r\n", end) for name, text in UCF_LISTS.items()})
    assert found(ucf, "ucf101") == [
        (UCF_VIDEOS[0], "Archery", "test"),
        (UCF_VIDEOS[1], "Archery", "train"),
        (UCF_VIDEOS[2], "HandstandPushups", "train"),
    ]
    assert [split for _, _, split in found(ucf, "ucf101", official_split=2)] == ["train", "test", "train"]
    assert refused(ucf, "ucf101", official_split=3).startswith("'trainlist03.txt' and 'testlist03.txt' must lie")


@pytest.mark.parametrize(
    "videos",
    [
        # Another case, depth and type; flat; folders of frames.
        ("UCF-101/Archery/v_archery_g01_c01.MPG", "UCF-101/Archery/v_Archery_g08_c01.avi.mp4"),
        ("v_Archery_g01_c01.avi", "v_Archery_g08_c01.avi"),
        ("frames/v_Archery_g01_c01/1.jpg", "frames/v_Archery_g08_c01/1.webp"),
    ],
)
def test_ucf101_is_found_in_other_trees(tmp_path, videos):
    root = touch(write(tmp_path, UCF_LISTS), *videos, "any/v_HandstandPushups_g08_c01.avi")
    wanted = [("Archery", "test"), ("Archery", "train"), ("HandstandPushups", "train")]
    assert sorted((label, split) for _, label, split in found(root, "ucf101")) == wanted
    assert listing(root, "ucf101").notes == []


def test_lists_may_lie_anywhere_if_named_or_two_folders_deeper(tmp_path):
    root = touch(tmp_path / "videos", *UCF_VIDEOS)
    lie = f"'trainlist01.txt' and 'testlist01.txt' must lie in '{root}', or in a folder at most two deeper."
    assert refused(root, "ucf101") == f"{lie} Name their folder with --annotations."
    write(tmp_path, {f"lists/{name}": text for name, text in UCF_LISTS.items()})
    for annotations in (str(tmp_path / "lists" / UCF), str(tmp_path / "lists"), "../lists"):
        assert len(found(root, "ucf101", annotations=annotations)) == 3
    (tmp_path / "lists").rename(root / "annotations")
    assert len(found(root, "ucf101")) == 3


def test_what_is_listed_or_there_more_than_once_is_refused(ucf):
    lists = {name: text * 2 for name, text in UCF_LISTS.items() if name.endswith("list01.txt")}
    says = f"'{ucf}' has videos that are listed more than once: 6 ('Archery/v_Archery_g08_c01.avi', "
    assert refused(write(ucf, lists), "ucf101").startswith(says)
    touch(write(ucf, UCF_LISTS), "old/Archery/v_Archery_g01_c01.mp4", "old/Archery/v_Archery_g08_c01.mp4")
    said = refused(ucf, "ucf101")
    assert "has videos that are there more than once: 2 ('Archery/v_Archery_g08_c01.avi' and 'old/Arc" in said
    for name in ("g01", "g08"):
        path = ucf / f"old/Archery/v_Archery_{name}_c01.mp4"
        path.unlink()
        path.symlink_to(ucf / f"Archery/v_Archery_{name}_c01.avi")
    assert [path for path, _, _ in found(ucf, "ucf101")] == list(UCF_VIDEOS)


def test_classes_that_lost_all_training_videos_are_refused_together(ucf, tmp_path):
    said = refused(write(tmp_path / "none", UCF_LISTS), "ucf101")
    begins = "classes of which no video can be used: 2 ('Archery', 'HandstandPushups'). 'Archery/v_Arch"
    assert said.startswith(begins)
    assert said.endswith(f"' is skipped because {MISSING}")
    (ucf / "HandstandPushups").rename(tmp_path / "elsewhere")
    (ucf / "HandstandPushups").symlink_to(tmp_path / "elsewhere")
    assert "no video can be used: 1 ('HandstandPushups'). 'HandstandPushups/v_Han" in refused(ucf, "ucf101")
    assert len(found(ucf, "ucf101", follow_links=True)) == 3


def test_official_lists_without_rows_are_refused_as_such(tmp_path):
    ucf = dict.fromkeys(("trainlist01.txt", "testlist01.txt"), "\n")
    kinetics = dict.fromkeys(("train.csv", "val.csv"), "label,youtube_id,time_start,time_end\n")
    for layout, lists in (("ucf101", ucf), ("kinetics400", kinetics)):
        source = touch(write(tmp_path / layout, lists), *UCF_VIDEOS)
        assert refused(source, layout) == f"the official lists of '{source}' have no rows."


def write_ucf_of(root: Path, classes: list[str]) -> Path:
    names = {label: [f"{label}/v_{label}_g{g:02d}_c01.avi" for g in (8, 9, 1)] for label in classes}
    train = "".join(f"{name} {k}\n" for k, label in enumerate(classes, 1) for name in names[label][:2])
    test = "".join(f"{names[label][2]}\n" for label in classes)
    write(root, {"trainlist01.txt": train, "testlist01.txt": test})
    return touch(root, *(name for label in classes for name in names[label]))


def test_miniucf_is_its_fifty_classes_of_ucf101(tmp_path):
    root = write_ucf_of(tmp_path / "all", sorted({*MINIUCF, "Archery", "YoYo"}))
    assert len(MINIUCF) == 50
    assert {label for _, label, _ in found(root, "miniucf")} == MINIUCF
    assert Counter(split for _, _, split in found(root, "miniucf")) == {"train": 100, "test": 50}
    assert listing(root, "miniucf").notes == []
    less = write_ucf_of(tmp_path / "less", sorted(MINIUCF - {"Swing", "YoYo"}))
    assert refused(less, "miniucf") == "the lists have no videos of some of MiniUCF's 50 classes: 1 ('Swing')."


HMDB = "testTrainMulti_7030_splits/"
AWKWARD = "#20 Rhythm & Clap [good] (x)_clap_u_nm_np1_fr_goo_0.avi"
HMDB_LISTS = {
    HMDB + "brush_hair_test_split1.txt": (
        "April_09_brush_hair_u_nm_np1_ba_goo_0.avi 1 \r\nBlack_brush_hair_f_nm_np1_le_med_1.avi 2 \r\n"
        "Unused_brush_hair_f_nm_np1_le_med_1.avi 0 \r\n"
    ),
    HMDB + "clap_test_split1.txt": f"{AWKWARD} 1 \nb;c_clap_u_cm_np2_fr_bad_12.avi\t2\n",
    HMDB + "._clap_test_split1.txt": "\0",
}
HMDB_VIDEOS = (
    "brush_hair/April_09_brush_hair_u_nm_np1_ba_goo_0.avi",
    "brush_hair/Black_brush_hair_f_nm_np1_le_med_1.avi",
    "brush_hair/Unused_brush_hair_f_nm_np1_le_med_1.avi",
    f"clap/{AWKWARD}",
    "clap/b;c_clap_u_cm_np2_fr_bad_12.avi",
)


@pytest.fixture
def hmdb(tmp_path) -> Path:
    return touch(write(tmp_path / "hmdb", HMDB_LISTS), *HMDB_VIDEOS)


@pytest.mark.parametrize("above", ["", "test_train_splits/"])
def test_hmdb51_leaves_out_the_videos_marked_0_and_reads_every_name(hmdb, above):
    (hmdb / HMDB).rename(hmdb / "moved")
    (hmdb / above).mkdir(exist_ok=True)
    (hmdb / "moved").rename(hmdb / above / HMDB)
    assert found(hmdb, "hmdb51") == [
        (HMDB_VIDEOS[0], "brush_hair", "train"),
        (HMDB_VIDEOS[1], "brush_hair", "test"),
        (HMDB_VIDEOS[3], "clap", "train"),
        (HMDB_VIDEOS[4], "clap", "test"),
    ]
    assert (listing(hmdb, "hmdb51").skipped, listing(hmdb, "hmdb51").notes) == ({}, [])
    splits = [split for _, _, split in found(hmdb, "hmdb51", train_list="all-but-test")]
    assert splits == ["train", "test", "train", "train", "test"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_listed_name_is_found_in_either_unicode_form(hmdb, form):
    name = "Café_clap_u_nm_np1_fr_goo_0.avi"
    listed, stored = normalize(form, name), normalize("NFD" if form == "NFC" else "NFC", name)
    write(hmdb, {HMDB + "clap_test_split1.txt": f"{listed} 1\n"})
    touch(hmdb, f"clap/{stored}")
    assert (f"clap/{stored}", "clap", "train") in found(hmdb, "hmdb51")


def test_a_missing_video_of_a_class_in_another_unicode_form_is_no_lost_class(tmp_path):
    name = normalize("NFD", "Café")
    write(tmp_path, {file: text.replace("Archery", name) for file, text in UCF_LISTS.items()})
    touch(tmp_path, *(video.replace("Archery", name) for video in UCF_VIDEOS[1:]))
    assert [label for _, label, _ in found(tmp_path, "ucf101")] == [normalize("NFC", name), "HandstandPushups"]


def test_hmdb51_misses_the_list_of_a_class_that_another_split_names(hmdb, tmp_path):
    write(hmdb, {HMDB + "wave_test_split2.txt": "a.avi 1\n"})
    assert refused(hmdb, "hmdb51").endswith("lacks lists of classes: 1 ('wave_test_split1.txt').")
    none = touch(tmp_path / "none", *HMDB_VIDEOS)
    assert refused(none, "hmdb51").startswith("'<class>_test_split1.txt' must lie in")


def test_hmdb51s_recordings_are_names_up_to_their_tags(hmdb):
    pattern = read_recipe("hmdb51")["ingest"]["group_pattern"]
    names = [recording(video, pattern) for video in listing(hmdb, "hmdb51").videos]
    assert names == ["April_09_brush_hair", "Black_brush_hair", "#20 Rhythm & Clap [good] (x)_clap", "b;c_clap"]
    for name in ("April_09_clap_u_nm_np1_ba_goo_0", "No.5_clap_f_nm_np1_le_med_1", "plain", "No.5 plain"):
        file, folder = (VideoSource(Path(path), f"clap/{path}", "clap", "") for path in (f"{name}.webm", name))
        assert recording(file, pattern) == recording(folder, pattern) == re.split("_[fu]_nm", name)[0]


HEAD = "label,youtube_id,time_start,time_end,split\n"
K400 = {
    "annotations/train.csv": (
        "\ufefflabel,youtube_id,time_start,time_end,split,is_cc\r\nabseiling,-3B32lodo2M,59,69,train,0\r\n"
        '"air drumming",_dbcJuKJQNs,40,50,train,0\r\n"air drumming",gone_000000,0,10,train,0\r\n'
    ),
    "annotations/validate.csv": (
        HEAD + "abseiling,valOfKinet1,120,130,validate\nair drumming,lostForever,1,11,val\n"
    ),
}
K400_VIDEOS = (
    "train/abseiling/-3B32lodo2M_000059_000069.mp4",
    "_dbcJuKJQNs_000040_000050.mp4.mkv",
    "val/valOfKinet1_000120_000130.webm",
)


def test_kinetics_videos_lie_flat_or_in_folders_under_any_suffixes_and_validation_is_the_test_split(tmp_path):
    k400 = touch(write(tmp_path, K400), *K400_VIDEOS)
    # Ids that differ in case are different videos; a folder of a video's name holds it and a thumbnail.
    touch(k400, "_DBCJUKJQNS_000040_000050.mp4", "val/valOfKinet1_000120_000130/thumbnail.jpg")
    (k400 / K400_VIDEOS[2]).rename(k400 / "val/valOfKinet1_000120_000130/valOfKinet1_000120_000130.webm")
    got = listing(k400, "kinetics400")
    wanted = [(".mkv", "air drumming", "train"), (".mp4", "abseiling", "train"), (".webm", "abseiling", "test")]
    assert [(video.path.suffix, video.label, video.split) for video in got.videos] == wanted
    missing = ["gone_000000_000000_000010.mp4", "lostForever_000001_000011.mp4"]
    assert got.skipped == dict.fromkeys(missing, MISSING)
    left_out = "Caution: videos that no list names are left out: 1 ('_DBCJUKJQNS_000040_000050.mp4')."
    assert got.notes == [VALIDATION_IS_TEST, left_out]


PREFIX = "labels/something-something-v2-"


def ssv2_video(number: int, template: str) -> dict[str, object]:
    return {"id": str(number), "label": "holding potato", "template": template, "placeholders": ["potato"]}


SSV2 = {
    "labels": {"Holding something next to something": "0", "Approaching something with your camera": "1"},
    "train": [
        ssv2_video(78687, "Holding [something] next to [something]"),
        ssv2_video(42326, "Approaching [something] with your camera"),
    ],
    "validation": [ssv2_video(74225, "Holding [something] next to [something]")],
}


def write_ssv2(root: Path) -> Path:
    # The published files have Windows line ends in some copies.
    texts = {f"{PREFIX}{name}.json": json.dumps(content, indent=1) for name, content in SSV2.items()}
    write(root, {name: text.replace("\n", "\r\n") for name, text in texts.items()})
    return touch(root, *(f"20bn-something-something-v2/{k}.webm" for k in (78687, 42326, 74225)))


def test_ssv2s_class_is_its_template_without_brackets(tmp_path):
    root = write_ssv2(tmp_path)
    assert found(root, "ssv2") == [
        ("20bn-something-something-v2/42326.webm", "Approaching something with your camera", "train"),
        ("20bn-something-something-v2/74225.webm", "Holding something next to something", "test"),
        ("20bn-something-something-v2/78687.webm", "Holding something next to something", "train"),
    ]
    assert listing(root, "ssv2").notes == [VALIDATION_IS_TEST]


NO_VIDEO = "no number as id, with a template of the labels"
FAULTY: dict[tuple[str, str], list[tuple[str, str]]] = {
    ("ucf101", "trainlist01.txt"): [
        ("\nArchery/a.avi 1\na.avi 1\nx/Archery/a.avi 1\n", "2 (line 3 'a.avi 1', line"),
    ],
    ("ucf101", "testlist01.txt"): [
        ("Archery\n", "has no <class>/<video>.avi: 1 (line 1 'Archery')."),
        ("Archery/\xff.avi\n", "01.txt' cannot be read: it is not UTF-8 text."),
    ],
    ("hmdb51", "clap_test_split1.txt"): [
        ("a.avi\na.avi 3\n../a.avi 1\n1\n", "has no <name>.avi and 0, 1 or 2: 4 ("),
        ("a.avi 2\n", "of which no video can be used: 1 ('clap')."),
    ],
    ("kinetics400", "train.csv"): [
        ("label,youtube_id\n", "has no column 'time_start', only label, youtube_id."),
        (HEAD + "a,b,1\n,b,1,2,train\n", "has no time_end: 1 (line 2); '"),
        (HEAD + "a,#NAME?,1,2,train\n", "has no youtube_id and whole seconds: 1 (line"),
        (HEAD + "a,b,1s,2,train\na,b,1,1.5,train\n", "whole seconds: 2 (line 2 'b 1s 2',"),
        (HEAD, "of which no video can be used: 1 ('air drumming')."),
    ],
    ("ssv2", "something-something-v2-train.json"): [
        ("[", "is not a JSON file: Expecting value"),
        ("{}", "train.json' must have a list in JSON, got a dict."),
        ('[5, {"id": "1"}]', f"has {NO_VIDEO}: 2 (entry 1, entry 2 'None')."),
        ('[{"id": "1", "template": "Eating [x]"}]', "(entry 1 'Eating [x]')."),
    ],
}
"""What is written into a list of a layout, and what is said of it."""


@pytest.mark.parametrize(
    ("layout", "name", "text", "message"), [(*place, *fault) for place in FAULTY for fault in FAULTY[place]]
)
def test_faulty_lines_get_one_sentence_that_names_them(tmp_path, layout, name, text, message):
    write_ssv2(tmp_path)
    touch(write(tmp_path, UCF_LISTS | HMDB_LISTS | K400), *UCF_VIDEOS, *HMDB_VIDEOS, *K400_VIDEOS)
    (place,) = tmp_path.rglob(name)
    place.write_bytes(text.encode("latin-1"))
    assert message in refused(tmp_path, layout)
