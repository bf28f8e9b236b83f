"""Paths in untrusted files and folders: nothing outside the source is followed, opened or waited for."""

import os
from pathlib import Path

import pytest
from videos import write_classes, write_images, write_numbered

from prism.artifacts.store import ClipStore
from prism.errors import SourceError
from prism.ingestion.build import ingest
from prism.ingestion.listing import LINKED_OUT
from prism.ingestion.options import IngestConfig
from prism.ingestion.splits import list_videos
from prism.reports.text import printable

OPTIONS = {"num_frames": 4, "stride": 1, "size": 16, "val_fraction": 0.0, "test_fraction": 0.0, "progress": False}
NAMES = ["a\nb", "a\rb", "\x1b[2J\x1b]0;owned\x07", "<script>alert(1)<!--", "‮evil", "a,b\"c'd", "-rf", " spaces "]


@pytest.fixture
def source(tmp_path) -> Path:
    write_numbered(tmp_path / "secret.mp4", 8)
    return write_classes(tmp_path / "source", videos=2, num_frames=8)


def test_devices_and_pipes_in_the_place_of_videos_are_skipped_and_nobody_waits(source, tmp_path):
    os.mkfifo(source / "jump/pipe.mp4")
    (source / "jump/zero.mp4").symlink_to("/dev/zero")
    (source / "jump/terminal.mp4").symlink_to("/dev/tty")
    os.mkfifo(source / "list.csv")
    (source / "jump/frames").mkdir()
    for name in ("1.png", "2.png"):
        os.mkfifo(source / "jump/frames" / name)
    (source / "jump/linked").mkdir()
    write_images(tmp_path / "images", 2)
    for name in ("1.png", "2.png"):
        (source / "jump/linked" / name).symlink_to(tmp_path / "images" / f"frame{name}")
    store = ingest(source, tmp_path / "store", workers=2, max_decode_seconds=20.0, **OPTIONS)
    assert {video.path for video in store.sources} == {f"{c}/v{k}.mp4" for c in ("jump", "walk") for k in range(2)}
    skipped = (store.path / "skipped.csv").read_text()
    assert "jump/pipe.mp4,there is no such file." in skipped
    assert f'jump/zero.mp4,"{LINKED_OUT}"' in skipped
    assert "jump/frames,frame '1.png' is no file." in skipped
    assert "jump/linked,frame '1.png' is a link that leaves the source." in skipped


@pytest.mark.parametrize(
    "path", ["../secret.mp4", "x/../../secret.mp4", "{root}/secret.mp4", "/dev/zero", "jump/\0"]
)
def test_a_list_cannot_reach_outside_its_folder(source, tmp_path, path):
    listing = source / "list.csv"
    listing.write_text(f"path,label,split\n{path.format(root=tmp_path)},jump,train\n")
    with pytest.raises(SourceError, match=r"outside the list's folder|has no path"):
        list_videos(listing, IngestConfig())


def test_strange_names_are_kept_to_the_byte_and_shown_escaped(source, tmp_path):
    for name in NAMES:
        for k in range(2):
            write_numbered(source / name / f"{name}{k}.mp4", 8)
    store = ingest(source, tmp_path / "store", workers=2, **OPTIONS)
    again = ClipStore.open(store.path)
    assert set(again.classes) == {"jump", "walk", *NAMES}
    assert printable(repr(list(again.classes))).isprintable()


def test_a_message_about_a_strange_name_is_one_harmless_line(source, tmp_path, capsys):
    from prism.cli import run

    evil = source / "\x1b[2J\nfake: done"
    evil.mkdir()
    (evil / "v.mp4").touch()
    assert run(lambda: ingest(source, tmp_path / "store", workers=1, **OPTIONS)) == 1
    said = capsys.readouterr().err.rstrip("\n").splitlines()
    assert said[-1].startswith("prism: class '\\x1b[2J\\nfake: done' has no usable training video")
    assert said[-1].isprintable()
