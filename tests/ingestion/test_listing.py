"""The videos that a source holds, by folders and by lists. Layouts read names, so files may be empty."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from settings import refusal_of
from videos import write_classes, write_images

import prism
from prism.errors import ConfigError, SourceError
from prism.ingestion import listing as reasons
from prism.ingestion.build import make_plan
from prism.ingestion.listing import VIDEO_SUFFIXES, Layout, Listing, frame_files, videos_under, why_skipped
from prism.ingestion.options import IngestConfig
from prism.ingestion.splits import list_videos


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def found(source: Path, layout: str = "auto", **options: object) -> list[tuple[str, str, str]]:
    listing = list_videos(source, IngestConfig(layout=layout, **options))  # type: ignore[arg-type]
    return [(video.relative, video.label, video.split) for video in listing.videos]


def names(source: Path, **options: object) -> list[str]:
    return [name for name, _, _ in found(source, **options)]  # type: ignore[arg-type]


def refused(source: Path, layout: str = "auto", **options: object) -> str:
    return refusal_of(SourceError, found, source, layout, **options)


@pytest.mark.parametrize("split", ["", "train/"])
def test_class_folders_hold_videos_of_every_suffix_in_any_case_and_folders_of_frames(tmp_path, split):
    suffixes = [f".{suffix}" for suffix in re.split(" ", "mp4 avi webm mkv mov m4v mpg mpeg wmv flv 3gp ts gif")]
    assert set(suffixes) == set(VIDEO_SUFFIXES)
    videos = [f"{split}jump/{k:02}{suffix}" for k, suffix in enumerate(suffixes)]
    frames = [f"{split}walk/{kind}" for kind in ("bmp", "jpeg", "jpg", "png", "webp")]
    touch(tmp_path, *videos, f"{split}walk/A.MPG", *(f"{path}/1.{path.rpartition('/')[2]}" for path in frames))
    touch(tmp_path, f"{split}jump/.b.mp4", ".git/d.mp4", "readme.md", "prism.json")
    assert found(tmp_path) == [
        *((name, "jump", split[:-1]) for name in videos),
        *((name, "walk", split[:-1]) for name in (f"{split}walk/A.MPG", *frames)),
    ]


def test_files_that_are_no_videos_are_counted_by_their_suffix(tmp_path):
    touch(tmp_path, "jump/a.mp4", "walk/b.mp4", "walk/c.m2ts", "walk/d.m2ts", "jump/e.txt", "jump/notes/readme")
    said = "Passed over in folders, as no videos: 2 .m2ts, 1 .txt, 1 without a suffix."
    assert list_videos(tmp_path).notes == [said]
    none = touch(tmp_path / "none", "a/b.m2ts", "a/c.m2ts", "d.txt")
    assert "has no videos, but other files (2 .m2ts, 1 .txt)." in refused(none)


@pytest.mark.parametrize("split", ["", "train/"])
def test_videos_at_the_wrong_depth_are_skipped_and_classes_without_videos_counted(tmp_path, split):
    touch(tmp_path, f"{split}jump/a.mp4", f"{split}walk/b.mp4", f"{split}x.avi")
    touch(tmp_path, *(f"{split}walk/deep/{name}" for name in ("c.mp4", "d/e.avi", "f/1.jpg", ".g.mp4")))
    (tmp_path / split / "run").mkdir()
    listing = list_videos(tmp_path)
    deep = [f"{split}walk/deep/{name}" for name in ("c.mp4", "d/e.avi", "f")]
    assert listing.skipped == dict.fromkeys(deep, reasons.NESTED) | {f"{split}x.avi": reasons.LOOSE}
    says = f"3 ({', '.join(map(repr, deep))}) because {reasons.NESTED} 1 ('{split}x.avi') because {reasons.LOOSE}"
    assert why_skipped(listing.skipped) == says
    assert listing.notes == [f"Caution: folders of classes without a video: 1 ('{split}run')."]


def test_thumbnails_beside_videos_make_no_video_of_their_folder(tmp_path):
    touch(tmp_path, *(f"{label}/{k}.{suffix}" for label in "ab" for k in (0, 1) for suffix in ("mp4", "jpg")))
    assert names(tmp_path) == ["a/0.mp4", "a/1.mp4", "b/0.mp4", "b/1.mp4"]
    assert [path.name for path in videos_under(Listing(tmp_path), tmp_path, False)] == ["0.mp4", "1.mp4"] * 2


def test_a_folder_of_pictures_among_video_files_is_named(tmp_path):
    touch(tmp_path, "a/0.mp4", "a/thumbs/0.jpg", "b/1.mp4", "c/frames/0.jpg", "d/x.mp4/0.jpg", "d/y.mp4/0.jpg")
    (note,) = list_videos(tmp_path).notes
    assert note == "Caution: folders of pictures beside video files are read as videos: 1 ('a/thumbs')."


def test_a_list_in_a_folder_that_names_no_splits_is_not_passed_over_in_silence(tmp_path):
    write_list(touch(tmp_path, "a/0.mp4", "b/0.mp4"), "path,label,group\na/0.mp4,a,g\nb/0.mp4,b,g\n")
    (note,) = list_videos(tmp_path).notes
    assert note.endswith("no list without a column split; to ingest a list, pass its path: 1 ('list.csv').")


NFC, NFD = "caf\u00e9", "cafe\u0301"


def test_a_class_has_one_name_in_whichever_form_its_letters_are(tmp_path):
    touch(tmp_path, f"train/{NFC}/0.mp4", f"test/{NFD}/1.mp4", "train/b/2.mp4")
    labels = {f"test/{NFD}/1.mp4": NFC, "train/b/2.mp4": "b", f"train/{NFC}/0.mp4": NFC}
    assert found(tmp_path) == [(name, label, name.partition("/")[0]) for name, label in labels.items()]
    rows = f"test/{NFC}/1.mp4,{NFC},{NFD}\ntrain/{NFC}/0.mp4,{NFD},{NFC}\ntrain/b/2.mp4,b,\n"
    path = write_list(tmp_path, f"path,label,group\n{rows}")
    assert found(path) == [(name, label, "") for name, label in labels.items()]
    assert {video.recording for video in list_videos(path).videos} == {NFC, ""}
    assert reasons.TWINS in refused(touch(tmp_path / "twins", f"{NFC}/0.mp4", f"{NFD}/0.mp4", "b/0.mp4"))


@pytest.mark.parametrize("splits", [("training", "testing"), ("train", "dev")])
def test_split_folders_of_other_names_are_no_reason_to_move_videos(tmp_path, splits):
    touch(tmp_path, *(f"{split}/{label}/0.mp4" for split in splits for label in "ab"))
    assert refused(tmp_path).endswith("If the upper folders are splits, name them train, val and test.")


def test_a_clip_that_is_there_twice_under_one_name_is_refused_unless_a_list_names_both(tmp_path):
    twice = touch(tmp_path, "a/1.mp4", "a/1/0.png", "a/2.avi", "a/2.MP4", "b/1.mp4", "b/3.gif", "b/4.gif")
    (twice / "b/3.mp4").symlink_to("3.gif")
    assert refused(twice) == (f"'{twice}' has {reasons.TWINS}: 2 ('a/2.MP4' and 'a/2.avi', 'a/1.mp4' and 'a/1').")
    assert len(found(write_list(twice, "path,label\na/1.mp4,a\na/1,a\nb/1.mp4,b\n"))) == 3


def test_split_folders_name_the_split_and_one_alone_may_be_a_class(tmp_path):
    touch(tmp_path, "train/jump/a.mp4", "valid/jump/b.mp4", "test/walk/c.mp4", "annotations/list.txt")
    assert [split for _, _, split in found(tmp_path)] == ["test", "train", "val"]
    touch(tmp_path, "extra/c.mp4", "extra/d/e.mp4")
    assert list_videos(tmp_path).skipped == dict.fromkeys(["extra/c.mp4", "extra/d/e.mp4"], reasons.OUTSIDE)
    capitals = touch(tmp_path / "capitals", "Train/a/1.mp4", "TEST/a/2.mp4", "Validation/b/3.mp4")
    (capitals / "TEST/c").mkdir()
    assert [split for _, _, split in found(capitals)] == ["test", "train", "val"]
    assert list_videos(capitals).notes == ["Caution: folders of classes without a video: 1 ('TEST/c')."]
    alone = touch(tmp_path / "alone", "train/a/1.mp4", "train/b/1.mp4")
    assert {split for _, _, split in found(alone)} == {"train"}
    classes = touch(tmp_path / "classes", "train/a.mp4", "bus/b.mp4")
    assert found(classes) == [("bus/b.mp4", "bus", ""), ("train/a.mp4", "train", "")]


@pytest.mark.parametrize("split", ["", "Train/"])
def test_pictures_in_a_class_folder_itself_are_told_that_videos_need_folders(tmp_path, split):
    touch(tmp_path, *(f"{split}{label}/{k}.jpg" for label in "ab" for k in range(3)))
    assert refused(tmp_path).endswith(f"2 ('{split}a', '{split}b') because {reasons.PICTURES}")


def test_a_source_without_class_folders_is_explained(tmp_path):
    assert "has no videos. Expected <class>/<video> with .mp4, .avi," in refused(tmp_path)
    flat = touch(tmp_path / "flat", "a.mp4", "b.mp4")
    assert f"has no videos that can be used: 2 ('a.mp4', 'b.mp4') because {reasons.LOOSE}" in refused(flat)
    ucf = touch(tmp_path / "ucf", "v_Archery_g01_c01.avi")
    assert refused(ucf).endswith("--layout ucf101 reads names like these with its lists.")
    deep = touch(tmp_path / "deep", "sports/run/0.mp4", "sports/walk/0.mp4")
    assert refused(deep).endswith(f"2 ('sports/run/0.mp4', 'sports/walk/0.mp4') because {reasons.NESTED}")
    touch(tmp_path / "one", "right/b.mp4", "left/deep/a.mp4")
    with pytest.raises(SourceError, match=r"only class 'right', .* \('left/deep/a\.mp4'\) because it lies in"):
        make_plan(tmp_path / "one", IngestConfig())


def test_what_is_no_source_gets_one_sentence(tmp_path, store):
    assert "does not exist" in refused(tmp_path / "missing")
    file = touch(tmp_path, "a.mp4") / "a.mp4"
    assert "is a file, but must be a folder of videos or a .csv list" in refused(file)
    assert "is a clip store already. Name the videos that it was made from" in refused(store.path)
    empty = write_list(touch(tmp_path / "listed", "a/1.mp4", "b/1.mp4"), "path,label,split\n")
    assert refused(empty.parent) == f"list '{empty}' has no rows below its header, so that it has no videos."


def test_a_name_that_is_not_text_is_skipped(tmp_path):
    touch(tmp_path, "jump/a.mp4")
    try:
        (tmp_path / os.fsdecode(b"jump/\xff.mp4")).touch()
    except OSError:
        pytest.skip("this file system allows only UTF-8 names")
    assert list_videos(tmp_path).skipped == {"jump/\\udcff.mp4": "its name is not valid UTF-8."}


@pytest.fixture
def linked(tmp_path) -> Path:
    """A snapshot as the Hub keeps it: files are links to blobs, and one class is a folder that is a link."""
    touch(tmp_path, *(f"blobs/{k}" for k in range(4)), "elsewhere/6.mp4")
    touch(tmp_path / "snapshot", "run/5.mp4")
    for k in range(4):
        path = tmp_path / "snapshot" / ("jump", "walk")[k % 2] / f"{k}.mp4"
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(f"../../blobs/{k}")
    (tmp_path / "snapshot/swim").symlink_to(tmp_path / "elsewhere")
    return tmp_path / "snapshot"


def test_links_out_of_the_source_are_read_where_it_is_asked_for_and_the_refusal_names_the_option(linked):
    said = refused(linked)
    assert said.startswith("classes of which no video can be used: 2 ('jump', 'walk'). 'jump/0.mp4' is skipped ")
    assert said.endswith(f"because {reasons.LINKED_OUT}")
    assert "--follow-links reads it" in reasons.LINKED_OUT
    listing = list_videos(linked, IngestConfig(follow_links=True))
    names = [f"{'jump' if k % 2 == 0 else 'walk'}/{k}.mp4" for k in (0, 2, 1, 3)]
    assert [video.relative for video in listing.videos] == [*names[:2], "run/5.mp4", "swim/6.mp4", *names[2:]]
    assert (listing.skipped, listing.notes) == ({}, [])
    listing = list_videos(touch(linked, "jump/a.mp4", "walk/b.mp4"))
    assert listing.skipped == dict.fromkeys(names, reasons.LINKED_OUT) | {"swim": reasons.LINKED_FOLDER}


def test_pointers_in_the_place_of_videos_are_told_from_videos(tmp_path):
    root = touch(tmp_path, "a/1.mp4", "b/1.mp4", "blob")
    (root / "a/2.mp4").write_text("../blob")
    (root / "b/2.mp4").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    (root / "b/3.mp4").write_text("../nothing")
    assert list_videos(root).skipped == dict.fromkeys(["a/2.mp4", "b/2.mp4"], reasons.POINTER)


def test_a_link_to_a_folder_above_does_not_search_without_end(tmp_path):
    root = touch(tmp_path, "a/deep/1.mp4")
    (root / "a/deep/up").symlink_to(root)
    (root / "a/again").symlink_to(root / "a/deep")
    followed, listing = Listing(root), Listing(root)
    assert [path.name for path in videos_under(followed, root, True)] == ["1.mp4", "1.mp4"]
    assert [path.name for path in videos_under(listing, root, False)] == ["1.mp4"]
    assert listing.skipped == dict.fromkeys(["a/again", "a/deep/up"], reasons.LINKED_FOLDER)
    assert followed.skipped == dict.fromkeys(["a/again/up", "a/deep/up"], reasons.LINKED_AGAIN)


@pytest.mark.parametrize("split", ["", "test/"])
def test_a_link_beside_its_file_is_skipped_and_so_is_one_that_leads_nowhere(tmp_path, split):
    file = f"{split and 'train/'}jump/b.mp4"
    root = touch(tmp_path / "root", file, f"{split and 'train/'}walk/c.mp4", f"{split}jump/d.mp4")
    (root / f"{split}jump/a.mp4").symlink_to(root / file)
    (root / f"{split}jump/self.mp4").symlink_to("self.mp4")
    os.link(root / file, (root / file).with_name("e.mp4"))
    (tmp_path / "link").symlink_to(root)
    listing = list_videos(tmp_path / "link")
    assert listing.skipped == {
        f"{file.replace('b.', 'e.')}": f"it is the file of '{file}' by another name.",
        f"{split}jump/a.mp4": f"it is the file of '{file}' by another name.",
        f"{split}jump/self.mp4": "it is a link that leads nowhere.",
    }
    assert len(listing.videos) == 3


def write_list(root: Path, text: str) -> Path:
    root.mkdir(exist_ok=True)
    (root / "list.csv").write_bytes(text.encode(errors="surrogateescape"))
    return root / "list.csv"


def test_a_list_names_paths_labels_and_splits(tmp_path):
    touch(tmp_path, "x/a.mp4", "b.avi")
    path = write_list(tmp_path, "split,extra,Label,PATH\ntrain,1,leap,x/a.mp4\nvalidation,2,walk,./b.avi\n")
    assert found(path) == found(tmp_path) == [("b.avi", "walk", "val"), ("x/a.mp4", "leap", "train")]
    assert list_videos(path).videos[1].path == tmp_path / "x/a.mp4"
    (tmp_path / "other.csv").write_text("name,count\n")
    assert len(found(tmp_path)) == 2
    (tmp_path / "other.csv").write_text("path,label,split\n")
    assert "several lists of videos (list.csv, other.csv)" in refused(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        '\ufeffpath,label,split\r\n"a, b.mp4",jump,train\r\n\r\nc.mp4,"walk",test\r\n',
        "path;label;split\na, b.mp4;jump;Train\nc.mp4;walk;TEST\n",
        'path,label,split\n".\\a, b.mp4",jump,train,\n.\\c.mp4,walk,test\n,,\n , ,,,\n',
    ],
)
def test_a_list_from_another_system_is_read(tmp_path, text):
    touch(tmp_path, "a, b.mp4", "c.mp4")
    assert found(write_list(tmp_path, text)) == [("a, b.mp4", "jump", "train"), ("c.mp4", "walk", "test")]


def test_a_list_may_name_absolute_paths_in_its_own_folder(tmp_path, monkeypatch):
    root = touch(tmp_path / "videos", "x/a.mp4", "b.avi")
    path = write_list(root, f"path,label,split\n{root}/x/a.mp4,jump,train\n{root}/x/../b.avi,walk,test\n")
    listed = [("b.avi", "walk", "test"), ("x/a.mp4", "jump", "train")]
    assert found(path) == listed
    monkeypatch.chdir(root)
    assert found(Path("list.csv")) == listed
    (tmp_path / "link").symlink_to(root)
    assert found(tmp_path / "link/list.csv") == listed


FAULTY = "path,label,split\n" + "".join(f"{k}.mp4,{'jump' * (k % 2)},train\n" for k in range(10)) + "1.mp4,x,dev\n"
FAULTY_LISTS = [
    (FAULTY, "has no label: 5 (line 2, line 4, line 6, …); '{path}' has a split that is none of train, val, v"),
    (FAULTY, "validation, test: 1 (line 12 'dev')."),
    ("path,label\na.mp4,a\nb/../a.mp4,b\n", "has a video that it has before: 1 (line 3 'a.mp4')."),
    ("path,label\n../a,a\n/etc/a,a\nx/../../a,a\n", "folder: 3 (line 2 '../a', line 3 '/etc/a', line 4 'x/../"),
    ("path,label,split\na.mp4,a,\nb.mp4,b,\nc.mp4,c,test\n", "val, valid, validation, test: 2 (line 2"),
    (
        'path,label\na.mp4,"a\nb.mp4,b\nc.mp4",b\n"d.mp4,b\ne.mp4",b\n',
        "has a quote that is not closed: 2 (line 2 'a\\nb.mp4,b\\nc.mp4', line 5 'd.mp4,b\\ne.mp4').",
    ),
    ('path,label,group\na.mp4,a,"g\rb.mp4,b,g"\n', "has a quote that is not closed: 1 (line "),
    ("path,label,group\na.mp4,push, left,g1\nb.mp4,b,g\n", "has more cells than columns: 1 (line 2 'g1')."),
    ("path,label,Label\na.mp4,a,b\n", "list '{path}' has the column 'label' twice."),
    ("group,path,label,group\ng,a.mp4,a,h\n", "has the column 'group' twice."),
    ("", "has no column 'path', only nothing."),
    ("path,label,split\n", "has no videos."),
    ("path;label\r\n\r\n", "list '{path}' has no rows below its header, so that it has no videos."),
    ("path,label\n\udcff", "cannot be read: it is not UTF-8 text"),
    ("path,label\na.mp4,a\nb.mp4,b\n", "no video can be used: 2 ('a', 'b'). 'a.mp4' is skipped because it is m"),
]


@pytest.mark.parametrize(("text", "message"), FAULTY_LISTS)
def test_a_faulty_list_is_refused_with_all_its_faults(tmp_path, text, message):
    path = write_list(tmp_path, text)
    assert message.format(path=path) in refused(path)


def test_a_list_is_held_against_its_folder_both_ways(tmp_path):
    touch(tmp_path, *(f"videos/{name}.mp4" for name in ("a", "b", "c", "d/e")), "other/f.mp4")
    rows = ["videos/a.mp4,a", "videos/b.mp4,b", "videos/gone.mp4,a", "videos/lost.mp4,b"]
    listing = list_videos(write_list(tmp_path, "\n".join(["path,label", *rows])))
    assert listing.skipped == dict.fromkeys(["videos/gone.mp4", "videos/lost.mp4"], reasons.MISSING)
    (note,) = listing.notes
    assert note == "Caution: videos that no list names are left out: 2 ('videos/c.mp4', 'videos/d/e.mp4')."


@dataclass(frozen=True)
class Prefixes(Layout):
    """The class is the start of a file name."""

    separator: str = "_"

    def videos_of(self, source: Path) -> Listing:
        listing = Listing(source)
        for path in sorted(source.glob("*.mp4")):
            listing.add(path, path.name.split(self.separator)[0], "")
        return listing


BY_NAME = f"{__name__}:Prefixes"


@pytest.mark.parametrize("layout", [Prefixes, BY_NAME, Prefixes(separator="-"), f"{BY_NAME}(separator='-')"])
def test_a_custom_layout_is_used_and_recorded_by_its_name(layout, tmp_path):
    folder = write_classes(tmp_path / "given", videos=2, num_frames=3)
    (tmp_path / "videos").mkdir()
    separator = "-" if "-" in str(layout) else "_"
    for video in folder.rglob("*.mp4"):
        video.rename(tmp_path / "videos" / f"{video.parent.name}{separator}{video.name}")
    options = {"num_frames": 2, "size": 8, "workers": 1, "progress": False}
    store = prism.ingest(tmp_path / "videos", tmp_path / "store", layout=layout, **options)  # type: ignore[arg-type]
    assert list(store.classes) == ["jump", "walk"]
    assert store.header.settings["layout"] == BY_NAME + "(separator='-')" * (separator == "-")


@dataclass(frozen=True)
class Broken(Layout):
    """Lists a video wrongly, or gives no listing."""

    video: str = "a.mp4"
    label: str = "jump"
    split: str = "train"
    gives: str = ""

    def videos_of(self, source: Path) -> Listing:
        listing = Listing(source)
        if self.video:
            listing.add(source / self.video, self.label, self.split)
        return self.gives or listing  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("split='dev'", "gives 'a.mp4' the class 'jump' and the split 'dev', but they must be a text, and one of"),
        ("label=3", "gives 'a.mp4' the class 3 and the split 'train', but they must be a text"),
        ("video=''", "finds no videos in source"),
        ("video='/etc/a.mp4'", "'/etc/a.mp4' is listed, but lies outside the source"),
        ("gives='a list'", "gives a str, not a Listing. docs/api.md shows one."),
    ],
)
def test_a_custom_layout_that_lists_wrongly_is_named(tmp_path, options, message):
    layout = f"{__name__}:Broken({options})"
    with pytest.raises((SourceError, ConfigError), match=re.escape(message)):
        found(touch(tmp_path, "a.mp4"), layout)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "class"}, "layout = 'class', but it must be one of auto, ucf101, miniucf"),
        ({"layout": "ssv2", "official_split": 2}, "must be left out with layout ssv2"),
        ({"annotations": "lists"}, "must be left out with layout auto"),
        ({"sampling": "even", "clips_per_video": 2}, "must be 1 with window centre or sampling even"),
        ({"fps": 4.0}, r"ingest\.fps = 4\.0, but it must be left out unless sampling is fps"),
        ({"stride": 9, "sampling": "even"}, r"must be left out unless sampling is stride"),
        ({"group_pattern": r"g\d+"}, "must be a regular expression with a group"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        IngestConfig(**options)


def test_frames_that_are_links_out_of_the_source_are_read_where_it_is_asked_for(tmp_path):
    for label in ("jump", "walk"):
        write_images(tmp_path / f"blobs/{label}", 4)
        (tmp_path / f"source/{label}/one").mkdir(parents=True)
        for image in frame_files(tmp_path / f"blobs/{label}"):
            (tmp_path / f"source/{label}/one/{image.name}").symlink_to(image)
    options = {"num_frames": 4, "size": 8, "workers": 1, "progress": False, "follow_links": True}
    assert len(prism.ingest(tmp_path / "source", tmp_path / "store", **options)) == 2  # type: ignore[arg-type]
