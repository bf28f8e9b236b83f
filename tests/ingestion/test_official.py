"""Official layouts: miniature trees exactly as the authors publish them, with their awkward names and lines."""

import csv
import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st
from videos import shown_number, write_classes, write_numbered, write_numbered_images

from prism.errors import ConfigError, SourceError, VideoError
from prism.ingestion.annotations import MISSING
from prism.ingestion.build import ingest
from prism.ingestion.decode import frame_rate
from prism.ingestion.layouts import list_videos
from prism.ingestion.listing import Listing, VideoSource
from prism.ingestion.official import MINIUCF, VALIDATION_IS_TEST
from prism.ingestion.options import IngestConfig
from prism.ingestion.sampling import Window, centre_window, stride_at
from prism.ingestion.splits import assign_splits, recording
from prism.recipes import read_recipe


def write(root: Path, files: dict[str, str]) -> Path:
    """Files with their texts, to the byte; a video is empty."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    return root


def touch(root: Path, *names: str) -> Path:
    return write(root, dict.fromkeys(names, ""))


def listing(source: Path, layout: str, **options: object) -> Listing:
    return list_videos(source, IngestConfig(layout=layout, **options))  # type: ignore[arg-type]


def found(source: Path, layout: str, **options: object) -> list[tuple[str, str, str]]:
    return [(v.relative, v.label, v.split) for v in listing(source, layout, **options).videos]


# UCF101 and MiniUCF

UCF = "ucfTrainTestlist/"
UCF_LISTS = {
    UCF + "classInd.txt": "1 Archery\r\n2 HandstandPushups\r\n\r\n",
    UCF + "trainlist01.txt": (
        "Archery/v_Archery_g08_c01.avi 1\r\nHandstandPushups/v_HandStandPushups_g08_c01.avi 2\r\n"
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


def test_ucf101_takes_classes_and_splits_from_its_lists(ucf):
    assert found(ucf, "ucf101") == [
        (UCF_VIDEOS[0], "Archery", "test"),
        (UCF_VIDEOS[1], "Archery", "train"),
        (UCF_VIDEOS[2], "HandstandPushups", "train"),
    ]


def test_another_official_split_reads_other_lists(ucf):
    assert [split for _, _, split in found(ucf, "ucf101", official_split=2)] == ["train", "test", "train"]
    with pytest.raises(SourceError, match=r"'trainlist03\.txt' and 'testlist03\.txt' are missing: looked in"):
        found(ucf, "ucf101", official_split=3)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_of_lists_may_end_in_any_way(ucf, end):
    usual = found(ucf, "ucf101")
    write(ucf, {name: text.replace("\r\n", end) for name, text in UCF_LISTS.items()})
    assert found(ucf, "ucf101") == usual


def test_case_depth_and_video_type_may_differ_from_the_lists(tmp_path):
    root = write(tmp_path, UCF_LISTS)
    touch(root, "UCF-101/Archery/v_Archery_g01_c01.mp4", "UCF-101/Archery/v_archery_g08_c01.AVI")
    touch(root, "UCF-101/HandStandPushups/v_HandstandPushups_g08_c01/1.jpg", "UCF-101/Archery/extra.avi")
    assert [(label, split) for _, label, split in found(root, "ucf101")] == [
        ("Archery", "test"),
        ("Archery", "train"),
        ("HandstandPushups", "train"),
    ]


def test_lists_may_lie_anywhere_if_told(tmp_path):
    root = touch(tmp_path / "videos", *UCF_VIDEOS)
    write(tmp_path, {name.replace(UCF, "lists/"): text for name, text in UCF_LISTS.items()})
    assert len(found(root, "ucf101", annotations=str(tmp_path / "lists"))) == 3
    assert len(found(root, "ucf101", annotations="../lists")) == 3
    with pytest.raises(SourceError) as error:
        found(root, "ucf101")
    assert "'classInd.txt' and 'trainlist01.txt' and 'testlist01.txt' are missing: looked in" in str(error.value)
    assert f"'{root / 'ucfTrainTestlist'}'" in str(error.value)
    assert str(error.value).endswith("Name the folder with --annotations.")


def test_a_missing_list_is_named(ucf):
    (ucf / UCF / "classInd.txt").unlink()
    with pytest.raises(SourceError, match=r"^'classInd\.txt' is missing: looked in"):
        found(ucf, "ucf101")


def test_a_class_that_lost_all_training_videos_is_an_error(ucf):
    (ucf / UCF_VIDEOS[2]).unlink()
    with pytest.raises(
        SourceError, match=r"class 'HandstandPushups' has no training video: the source holds none of the 1 listed"
    ):
        found(ucf, "ucf101")


def test_linked_folders_are_not_searched_and_the_error_says_so(ucf, tmp_path):
    (ucf / "HandstandPushups").rename(tmp_path / "elsewhere")
    (ucf / "HandstandPushups").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match=r"Linked folders are not searched \('HandstandPushups'\)\."):
        found(ucf, "ucf101")


def test_a_linked_video_that_leaves_the_source_is_skipped(ucf, tmp_path):
    (ucf / UCF_VIDEOS[0]).unlink()
    (ucf / UCF_VIDEOS[0]).symlink_to(touch(tmp_path, "secret.avi") / "secret.avi")
    assert listing(ucf, "ucf101").skipped == {UCF_VIDEOS[0]: "it is a link that leaves the source."}


def test_a_video_that_is_there_twice_is_refused(ucf):
    touch(ucf, "old/Archery/v_Archery_g01_c01.mp4")
    with pytest.raises(SourceError, match=r"which is there twice: 'Archery/v_.*avi' and 'old/Archery/v_.*mp4'"):
        found(ucf, "ucf101")


def test_a_video_in_a_folder_of_its_name_with_a_thumbnail_is_there_once(k400):
    name = "-3B32lodo2M_000059_000069"
    (video,) = k400.rglob(f"{name}.mp4")
    touch(k400, f"folders/{name}/thumbnail.jpg")
    video.rename(k400 / f"folders/{name}/{name}.mp4")
    assert (f"folders/{name}/{name}.mp4", "abseiling", "train") in found(k400, "kinetics400")


def test_a_source_without_any_listed_video_is_refused(tmp_path):
    write(tmp_path, UCF_LISTS)
    with pytest.raises(
        SourceError, match=r"holds none of the 3 listed videos, the first is 'Archery/v_Archery_g08"
    ):
        found(tmp_path, "ucf101")


def test_an_official_layout_needs_a_folder(tmp_path):
    with pytest.raises(SourceError, match="this layout needs a folder"):
        found(touch(tmp_path, "list.csv") / "list.csv", "ucf101")


def write_ucf_of(root: Path, classes: list[str]) -> Path:
    names = {label: [f"{label}/v_{label}_g{g:02d}_c01.avi" for g in (8, 9, 1)] for label in classes}
    index = "".join(f"{k} {label}\n" for k, label in enumerate(classes, 1))
    train = "".join(f"{name} {k}\n" for k, label in enumerate(classes, 1) for name in names[label][:2])
    test = "".join(f"{names[label][2]}\n" for label in classes)
    write(root, {"classInd.txt": index, "trainlist01.txt": train, "testlist01.txt": test})
    return touch(root, *(name for label in classes for name in names[label]))


def test_miniucf_is_its_fifty_classes_of_ucf101(tmp_path):
    root = write_ucf_of(tmp_path, sorted({*MINIUCF, "Archery", "YoYo"}))
    assert len(MINIUCF) == 50
    assert {label for _, label, _ in found(root, "miniucf")} == MINIUCF
    assert Counter(split for _, _, split in found(root, "miniucf")) == {"train": 100, "test": 50}
    assert Counter(split for _, _, split in found(root, "ucf101")) == {"train": 104, "test": 52}


def test_miniucf_refuses_lists_without_one_of_its_classes(tmp_path):
    root = write_ucf_of(tmp_path, sorted(MINIUCF - {"Swing", "YoYo"}))
    with pytest.raises(SourceError, match=r"no videos of 1 of MiniUCF's 50 classes, the first is 'Swing'"):
        found(root, "miniucf")


# HMDB51

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


def test_hmdb51_leaves_out_the_videos_marked_0_and_reads_every_name(hmdb):
    assert sorted(found(hmdb, "hmdb51")) == sorted(
        [
            (HMDB_VIDEOS[0], "brush_hair", "train"),
            (HMDB_VIDEOS[1], "brush_hair", "test"),
            (HMDB_VIDEOS[3], "clap", "train"),
            (HMDB_VIDEOS[4], "clap", "test"),
        ]
    )
    assert listing(hmdb, "hmdb51").skipped == {}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_listed_name_is_found_in_either_unicode_form(hmdb, form):
    name = "Café_clap_u_nm_np1_fr_goo_0.avi"
    listed, stored = normalize(form, name), normalize("NFD" if form == "NFC" else "NFC", name)
    write(hmdb, {HMDB + "clap_test_split1.txt": f"{listed} 1\n"})
    touch(hmdb, f"clap/{stored}")
    assert (f"clap/{stored}", "clap", "train") in found(hmdb, "hmdb51")


def test_hmdb51_trains_on_all_that_it_does_not_test_where_that_is_asked_for(hmdb):
    given = dict.fromkeys(HMDB_VIDEOS, "train") | dict.fromkeys((HMDB_VIDEOS[1], HMDB_VIDEOS[4]), "test")
    splits = {path: split for path, _, split in found(hmdb, "hmdb51", train_list="all-but-test")}
    assert splits == given


@pytest.mark.parametrize("layout", ["auto", "ucf101", "ssv2"])
def test_only_hmdb51_has_videos_in_neither_list(layout):
    says = f"ingest.train_list = 'all-but-test', but it must be official with layout {layout}; only hmdb51 has"
    with pytest.raises(ConfigError, match=says):
        IngestConfig(layout=layout, train_list="all-but-test")


def test_hmdb51_misses_the_list_of_a_class_that_another_split_names(hmdb):
    write(hmdb, {HMDB + "wave_test_split2.txt": "a.avi 1\n"})
    with pytest.raises(SourceError, match=r"^'wave_test_split1\.txt' is missing: looked in"):
        found(hmdb, "hmdb51")
    with pytest.raises(
        SourceError, match=r"'brush_hair_test_split2\.txt' and 'clap_test_split2\.txt' are missing"
    ):
        found(hmdb, "hmdb51", official_split=2)


def test_hmdb51_without_lists_is_refused(tmp_path):
    with pytest.raises(SourceError, match=r"^'<class>_test_split1\.txt' is missing: looked in"):
        found(touch(tmp_path, *HMDB_VIDEOS), "hmdb51")


def test_hmdb51s_recordings_are_names_up_to_their_tags(hmdb):
    pattern = read_recipe("hmdb51")["ingest"]["group_pattern"]
    names = {recording(video, pattern) for video in listing(hmdb, "hmdb51").videos}
    assert names == {
        "April_09_brush_hair",
        "Black_brush_hair",
        "#20 Rhythm & Clap [good] (x)_clap",
        "b;c_clap",
    }
    for name in ("April_09_clap_u_nm_np1_ba_goo_0", "No.5_clap_f_nm_np1_le_med_1", "plain", "No.5 plain"):
        file, folder = (VideoSource(Path(path), f"clap/{path}", "clap", "") for path in (f"{name}.webm", name))
        assert recording(file, pattern) == recording(folder, pattern) == re.split("_[fu]_nm", name)[0]


# Kinetics-400

K400 = {
    "annotations/train.csv": (
        "\ufefflabel,youtube_id,time_start,time_end,split,is_cc\r\nabseiling,-3B32lodo2M,59,69,train,0\r\n"
        '"air drumming",_dbcJuKJQNs,40,50,train,0\r\n"air drumming",gone_000000,0,10,train,0\r\n'
    ),
    "annotations/validate.csv": (
        "label,youtube_id,time_start,time_end,split\nabseiling,valOfKinet1,120,130,validate\n"
        "air drumming,lostForever,1,11,val\n"
    ),
}
K400_VIDEOS = (
    "train/abseiling/-3B32lodo2M_000059_000069.mp4",
    "_dbcJuKJQNs_000040_000050.mp4",
    "val/valOfKinet1_000120_000130.webm",
)


@pytest.fixture
def k400(tmp_path) -> Path:
    return touch(write(tmp_path / "k400", K400), *K400_VIDEOS)


def test_kinetics_videos_lie_flat_or_in_folders_and_validation_is_the_test_split(k400):
    assert found(k400, "kinetics400") == [
        (K400_VIDEOS[1], "air drumming", "train"),
        (K400_VIDEOS[0], "abseiling", "train"),
        (K400_VIDEOS[2], "abseiling", "test"),
    ]
    assert listing(k400, "kinetics400").notes == [VALIDATION_IS_TEST]


def test_kinetics_missing_videos_are_skipped_as_missing(k400):
    assert MISSING.startswith("missing: ")
    assert listing(k400, "kinetics400").skipped == dict.fromkeys(
        ["gone_000000_000000_000010.mp4", "lostForever_000001_000011.mp4"], MISSING
    )


def test_kinetics_ids_that_differ_in_case_are_different_videos(k400):
    touch(k400, "_DBCJUKJQNS_000040_000050.mp4")
    assert len(found(k400, "kinetics400")) == 3


# Something-Something V2

PREFIX = "labels/something-something-v2-"


def ssv2_video(number: int, template: str) -> dict[str, object]:
    return {"id": str(number), "label": "holding potato", "template": template, "placeholders": ["potato"]}


SSV2_LABELS = {"Holding something next to something": "0", "Approaching something with your camera": "1"}
SSV2_TRAIN = [
    ssv2_video(78687, "Holding [something] next to [something]"),
    ssv2_video(42326, "Approaching [something] with your camera"),
]
SSV2_VALIDATION = [ssv2_video(74225, "Holding [something] next to [something]")]


def write_ssv2(root: Path, labels: object = None, train: object = None, validation: object = None) -> Path:
    contents = {
        "labels": SSV2_LABELS if labels is None else labels,
        "train": SSV2_TRAIN if train is None else train,
        "validation": SSV2_VALIDATION if validation is None else validation,
    }
    # The published files have Windows line ends in some copies.
    texts = {f"{PREFIX}{n}.json": json.dumps(c, indent=1).replace("\n", "\r\n") for n, c in contents.items()}
    return touch(write(root, texts), *(f"20bn-something-something-v2/{k}.webm" for k in (78687, 42326, 74225)))


def test_ssv2s_class_is_its_template_without_brackets(tmp_path):
    root = write_ssv2(tmp_path)
    assert found(root, "ssv2") == [
        ("20bn-something-something-v2/42326.webm", "Approaching something with your camera", "train"),
        ("20bn-something-something-v2/74225.webm", "Holding something next to something", "test"),
        ("20bn-something-something-v2/78687.webm", "Holding something next to something", "train"),
    ]
    assert listing(root, "ssv2").notes == [VALIDATION_IS_TEST]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"labels": []}, r"labels\.json' must be an object of classes and their numbers"),
        ({"labels": {**SSV2_LABELS, "Third": "1"}}, "gives the number 1 to 'Approaching .*' and to 'Third'"),
        ({"labels": {**SSV2_LABELS, "Third": "3"}}, "has 3 classes, but none has the number 2"),
        ({"labels": {**SSV2_LABELS, "Third": "2"}}, r"has class 'Third', which '.*train\.json' has no video of"),
        ({"labels": {**SSV2_LABELS, "\ud800": "2"}}, r"has a class '\\ud800', which is no printable text"),
        ({"train": {"id": 1}}, r"train\.json' must be a list of videos"),
        ({"train": [*SSV2_TRAIN, 5]}, r"entry 3 of '.*train\.json' must be an object with id and template"),
        ({"train": [{"id": "1"}]}, "entry 1 of .* must be an object with id and template"),
        ({"train": [{"id": "../1", "template": "a"}]}, r"has id '\.\./1' and template 'a', but they must be"),
        ({"train": [{"id": "1", "template": ["a"]}]}, "but they must be a number and a text"),
        ({"train": [ssv2_video(1, "Eating [something]")]}, "template 'Eating \\[something\\]', which is no class"),
        (
            {"validation": SSV2_TRAIN[:1]},
            r"entry 1 of '.*validation\.json' lists '78687\.webm' again, after entry 1",
        ),
    ],
)
def test_a_wrong_ssv2_file_gets_one_sentence(tmp_path, contents, message):
    with pytest.raises(SourceError, match=message) as error:
        found(write_ssv2(tmp_path, **contents), "ssv2")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_json_is_refused(tmp_path):
    write(write_ssv2(tmp_path), {f"{PREFIX}train.json": "["})
    with pytest.raises(SourceError, match=r"train\.json' is not a JSON file: Expecting value"):
        found(tmp_path, "ssv2")


# Malformed lines

HEAD = "label,youtube_id,time_start,time_end,split\n"


@pytest.mark.parametrize(
    ("layout", "name", "text", "message"),
    [
        (
            "ucf101",
            "classInd.txt",
            "1 Archery\nTwo\n",
            "line 2 of * is 'Two', but it must be a number and a class.",
        ),
        ("ucf101", "classInd.txt", "1 Archery\n1 Band\n", "line 2 of * this number or class is there already."),
        ("ucf101", "classInd.txt", "1 Archery\n2 archery\n", "line 2 of * this number or class is there already."),
        ("ucf101", "classInd.txt", " \n\n", "classInd.txt' is empty."),
        ("ucf101", "trainlist01.txt", "\nArchery/a.avi\n", "line 2 of * and the number of the class."),
        ("ucf101", "trainlist01.txt", "a.avi 1\n", "line 1 of * but it must be <class>/<video>.avi"),
        ("ucf101", "trainlist01.txt", "x/Archery/a.avi 1\n", "line 1 of * but it must be <class>/<video>.avi"),
        ("ucf101", "trainlist01.txt", "../a.avi 1\n", "line 1 of * names class '..', which classInd.txt does not"),
        ("ucf101", "trainlist01.txt", "Archery/a.avi x\n", "line 1 of * but it must be <class>/<video>.avi"),
        (
            "ucf101",
            "trainlist01.txt",
            "Archery/a.avi 2\n",
            "gives class 'Archery' the number 2, but classInd.txt 1.",
        ),
        ("ucf101", "trainlist01.txt", "Yoga/a.avi 9\n", "names class 'Yoga', which classInd.txt does not have."),
        ("ucf101", "testlist01.txt", "Archery/v_Archery_g08_c01.avi\n", "again, after line 1 of * "),
        ("ucf101", "testlist01.txt", "Archery\n", "line 1 of * but it must be <class>/<video>.avi."),
        (
            "hmdb51",
            "clap_test_split1.txt",
            "a.avi\n",
            "line 1 of * is 'a.avi', but it must be <name>.avi and 0, 1",
        ),
        ("hmdb51", "clap_test_split1.txt", "a.avi 3\n", "line 1 of * but it must be <name>.avi and 0, 1 or 2."),
        ("hmdb51", "clap_test_split1.txt", "../a.avi 1\n", "line 1 of * but it must be <name>.avi and 0, 1 or 2."),
        ("hmdb51", "clap_test_split1.txt", "1\n", "line 1 of * but it must be <name>.avi and 0, 1 or 2."),
        ("hmdb51", "clap_test_split1.txt", "a.avi 2\n", "class 'clap' has no videos in the training list."),
        ("kinetics400", "train.csv", "label,youtube_id\n", "has no column 'time_start', only label, youtube_id."),
        ("kinetics400", "train.csv", HEAD + "a,b,1,2\n", "line 2 of * has no split."),
        ("kinetics400", "train.csv", HEAD + ",b,1,2,train\n", "line 2 of * has no label."),
        ("kinetics400", "train.csv", HEAD + "a,#NAME?,1,2,train\n", "has youtube_id '#NAME?', which is none."),
        ("kinetics400", "train.csv", HEAD + "a,../b,1,2,train\n", "has youtube_id '../b', which is none."),
        ("kinetics400", "train.csv", HEAD + "a,b,1s,2,train\n", "time_start '1s', but it must be a whole number"),
        ("kinetics400", "train.csv", HEAD + "a,b,1,1.5,train\n", "time_end '1.5', but it must be a whole number"),
        ("kinetics400", "train.csv", HEAD + "a,b,9,9,train\n", "time_end 9, but it must be after time_start 9."),
        ("kinetics400", "train.csv", HEAD + "a,b,1,2,test\n", "has split 'test', but it must be train."),
        ("kinetics400", "validate.csv", HEAD + "a,b,1,2,train\n", "has split 'train', but it must be validate."),
        ("kinetics400", "validate.csv", HEAD + "a,-3B32lodo2M,59,69,val\n", "again, after line 2 of * "),
    ],
)
def test_a_malformed_line_gets_one_sentence_that_names_it(tmp_path, layout, name, text, message):
    lists = {"ucf101": UCF_LISTS, "hmdb51": HMDB_LISTS, "kinetics400": K400}[layout]
    (place,) = [path for path in lists if Path(path).name == name]
    videos = {"ucf101": UCF_VIDEOS, "hmdb51": HMDB_VIDEOS, "kinetics400": K400_VIDEOS}[layout]
    touch(write(tmp_path, {**lists, place: text}), *videos)
    with pytest.raises(SourceError) as error:
        found(tmp_path, layout)
    sentence = str(error.value)
    at = 0
    for part in message.split("*"):
        at = sentence.index(part.strip(), at)
    assert "\n" not in sentence
    assert name in sentence or "class 'clap'" in sentence or "after line" in sentence


def test_a_list_that_is_no_text_is_refused(ucf):
    (ucf / UCF / "testlist01.txt").write_bytes(b"Archery/\xff.avi\n")
    with pytest.raises(SourceError, match=r"testlist01\.txt' is not UTF-8 text"):
        found(ucf, "ucf101")


def test_kinetics_lists_without_videos_are_refused(k400):
    write(k400, {"annotations/train.csv": HEAD, "annotations/validate.csv": HEAD})
    with pytest.raises(SourceError, match=r"train\.csv' and '.*validate\.csv' list no videos"):
        found(k400, "kinetics400")


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "ucf101", "official_split": 4}, "must be one of 1, 2, 3 with layout ucf101"),
        ({"layout": "ssv2", "official_split": 2}, "must be one of 1 with layout ssv2"),
        ({"official_split": 2}, "must be one of 1 with layout auto"),
        ({"annotations": "lists"}, "must be empty unless the layout is one of ucf101, miniucf"),
        ({"sampling": "even", "clips_per_video": 2}, "must be 1 with window centre or sampling even"),
        ({"window": "centre", "clips_per_video": 2}, "must be 1 with window centre or sampling even"),
        ({"fps": 4.0}, r"ingest\.fps = 4\.0, but it must be left out unless sampling is fps"),
        ({"fps": 4.0, "sampling": "even"}, "must be left out unless sampling is fps"),
        (
            {"stride": 9, "sampling": "even"},
            r"ingest\.stride = 9, but it must be left out unless sampling is stride",
        ),
        ({"stride": 9, "sampling": "fps"}, "must be left out unless sampling is stride"),
        ({"fps": 0.0}, "must be above 0"),
        ({"sampling": "uniform"}, "must be one of stride, fps, even"),
        ({"window": "left"}, "must be one of random, centre"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        IngestConfig(**options)


@pytest.mark.parametrize("name", ["ucf101", "miniucf", "hmdb51", "kinetics400", "ssv2"])
def test_every_data_set_has_a_recipe_that_trains_on_all_its_training_videos(name, ucf):
    options = read_recipe(name)["ingest"]
    config = IngestConfig(**options)
    assert config.layout == name
    large = config.layout in ("kinetics400", "ssv2")
    assert (config.num_frames, config.size) == ((8, 64) if large else (16, 112))
    kept = assign_splits(found_videos(ucf), IngestConfig(**{**options, "layout": "ucf101"}))
    assert Counter(video.split for video in kept) == {"train": 2, "test": 1}


def found_videos(source: Path):
    return listing(source, "ucf101").videos


# Sampling


def test_the_stride_of_a_rate_is_the_nearest_whole_one():
    assert [stride_at(Fraction(rate), 2.0) for rate in (30, 25, 24, 2, 1)] == [15, 12, 12, 1, 1]
    assert stride_at(Fraction(30_000, 1001), 2.0) == 15
    assert stride_at(Fraction(30), 7.5) == 4


@given(st.integers(2, 400), st.integers(2, 40))
def test_even_sampling_leaves_less_than_one_stride_of_frames_on_both_sides_alike(video_frames, num_frames):
    window = centre_window(video_frames, num_frames, video_frames)
    indices = window.indices(num_frames, video_frames)
    if video_frames >= num_frames:
        left_over = video_frames - 1 - window.stride * (num_frames - 1)
        assert 0 <= left_over < num_frames - 1
        assert window.start == left_over // 2
        assert 2 * (indices[-1] - indices[0] + 1) > video_frames
    else:
        assert indices[:video_frames] == list(range(video_frames))


def windows(store_source: Path, output: Path, **options: object) -> dict[str, Window]:
    store = ingest(store_source, output, progress=False, num_frames=4, size=32, **options)
    return {source.path: Window(source.start, source.stride) for source in store.sources}


def test_a_store_takes_frames_by_rate_or_spread_and_says_which(tmp_path):
    root = write_classes(tmp_path / "root", videos=2, num_frames=60)
    write_numbered(root / "jump/short.mp4", 9)
    # 25 frames a second at 5: every fifth, around the middle.
    by_rate = windows(root, tmp_path / "rate", sampling="fps", fps=5.0, window="centre")
    assert set(by_rate.values()) == {Window(22, 5), Window(1, 2)}
    spread = windows(root, tmp_path / "even", sampling="even")
    assert set(spread.values()) == {Window(1, 19), Window(1, 2)}
    assert spread["jump/short.mp4"] == Window(1, 2)
    drawn = windows(root, tmp_path / "drawn", sampling="fps", fps=5.0)
    assert {window.stride for window in drawn.values()} == {5, 2}


def test_a_folder_of_frames_has_no_rate_but_can_be_spread(tmp_path):
    with pytest.raises(VideoError, match="a folder of frames has no frame rate"):
        frame_rate(write_numbered_images(tmp_path / "root/walk/one", 10))
    write_numbered_images(tmp_path / "root/jump/two", 10)
    assert set(windows(tmp_path / "root", tmp_path / "even", sampling="even").values()) == {Window(0, 3)}
    with pytest.raises(SourceError, match="which sampling fps needs"):
        windows(tmp_path / "root", tmp_path / "rate", sampling="fps")


def test_kinetics_becomes_a_store_that_lists_missing_and_broken_videos(k400, tmp_path, capfd):
    for first, name in enumerate(K400_VIDEOS):
        (k400 / name).unlink()
        codec = "libvpx" if name.endswith("webm") else "libx264"
        write_numbered(k400 / name, 50, codec, {"g": "12"}, first=first)
    lists = k400 / "annotations/train.csv"
    lists.write_text(lists.read_text() + "abseiling,broken,0,10,train,0\n")
    write(k400, {"broken_000000_000010.mp4": "no video"})
    options = {**read_recipe("kinetics400")["ingest"], "num_frames": 4, "fps": 5.0, "size": 32}
    store = ingest(k400, tmp_path / "store", **options)
    assert VALIDATION_IS_TEST in capfd.readouterr().err
    assert store.classes == ("abseiling", "air drumming")
    assert store.header.splits == {"train": 2, "val": 0, "test": 1}
    assert {(source.start, source.stride) for source in store.sources} == {(17, 5)}
    first_frames = [shown_number(clip[0]) for clip in store.clips("train").frames.numpy()]
    assert first_frames == [17, 18]
    with (store.path / "skipped.csv").open(newline="") as file:
        reasons = {row["path"]: row["reason"] for row in csv.DictReader(file)}
    assert reasons.pop("broken_000000_000010.mp4").startswith("it cannot be opened as a video")
    assert set(reasons.values()) == {MISSING}
    assert store.header.num_skipped == 3
