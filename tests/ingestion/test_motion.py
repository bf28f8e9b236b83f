"""The built-in data sets as files: the layout of any user's data, and the same bytes every time."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from prism.errors import ConfigError, OutputError
from prism.ingestion.motion import KINDS, write_motion
from prism.ingestion.options import MotionConfig
from prism.ingestion.splits import list_videos
from prism.machine.files import partial_path
from prism.machine.run import Run

SMALL = MotionConfig(train_per_class=2, test_per_class=1, num_frames=8, size=32)


@pytest.mark.parametrize("kind", KINDS)
def test_the_data_set_has_the_layout_of_any_users_data(tmp_path, kind):
    write_motion(tmp_path / "motion", SMALL, kind=kind, progress=False)
    listing = list_videos(tmp_path / "motion")
    counts = Counter((video.label, video.split) for video in listing.videos)
    assert counts == {(label, split): n for label in KINDS[kind][0] for split, n in (("train", 2), ("test", 1))}
    assert not listing.skipped


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_one_seed_gives_the_same_bytes_and_another_seed_others(tmp_path, kind):
    small = replace(SMALL, kind=kind)
    first = content(write_motion(tmp_path / "a", small, progress=False))
    assert first == content(write_motion(tmp_path / "b", small, progress=False))
    other = content(write_motion(tmp_path / "c", replace(small, seed=1), progress=False))
    assert first.keys() == other.keys()
    assert all(first[name] != other[name] for name in first if name.endswith(".mp4"))
    assert len(set(first.values())) == len(first)


def test_the_bytes_do_not_depend_on_what_was_in_memory(tmp_path):
    code = (
        "import sys\n"
        "from prism.ingestion.motion import write_motion\n"
        "from prism.ingestion.options import MotionConfig\n"
        "write_motion(sys.argv[1], MotionConfig(train_per_class=1, test_per_class=1, num_frames=12, size=32))"
    )
    contents = []
    for filling in ("0", "77", "255"):
        # glibc fills fresh memory with this byte; elsewhere the variable does nothing.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MALLOC_PERTURB_": filling}
        subprocess.run([sys.executable, "-c", code, tmp_path / filling], env=environment, check=True)
        contents.append(content(tmp_path / filling))
    assert contents[0] == contents[1] == contents[2]


def test_more_videos_keep_the_first_ones(tmp_path):
    few = content(write_motion(tmp_path / "few", SMALL, progress=False))
    many = content(write_motion(tmp_path / "many", replace(SMALL, train_per_class=3), progress=False))
    assert few.items() <= many.items()


def test_an_output_that_is_there_is_kept(tmp_path):
    output = tmp_path / "motion"
    output.mkdir()
    (output / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="exists already"):
        write_motion(output, SMALL, progress=False)
    with pytest.raises(OutputError, match="is not a data set of prism motion"):
        write_motion(output, SMALL, overwrite=True, progress=False)
    assert (output / "thesis.tex").exists()
    other = write_motion(tmp_path / "other", SMALL, progress=False)
    (other / "train/left/0000.mp4").unlink()
    write_motion(other, SMALL, Run(overwrite=True))
    assert (other / "train/left/0000.mp4").exists()


@pytest.mark.parametrize(
    "text", ['{"flip": false}', '{"flip": false, "made_by": "prism export"}', "[]", "{", '"prism motion"']
)
def test_videos_of_ones_own_are_not_overwritten_though_they_say_how_they_flip(tmp_path, text):
    (tmp_path / "own/train/jump").mkdir(parents=True)
    (tmp_path / "own/train/jump/mine.mp4").write_text("years of work")
    (tmp_path / "own/prism.json").write_text(text)
    with pytest.raises(OutputError, match="is not a data set of prism motion"):
        write_motion(tmp_path / "own", SMALL, overwrite=True, progress=False)
    assert (tmp_path / "own/train/jump/mine.mp4").exists()


@pytest.mark.parametrize("name", ["thesis.tex", "train/left/mine.mp4", "train/jump/0000.mp4"])
def test_a_data_set_that_holds_files_of_ones_own_is_not_overwritten(tmp_path, name):
    output = write_motion(tmp_path / "motion", SMALL, progress=False)
    own = output / name
    own.parent.mkdir(exist_ok=True)
    own.write_text("years of work")
    with pytest.raises(OutputError, match="' is no part of a data set of prism motion"):
        write_motion(output, SMALL, overwrite=True, progress=False)
    assert own.exists()


def test_a_data_set_that_cannot_be_finished_leaves_nothing(tmp_path, monkeypatch):
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("prism.ingestion.motion.write_video", fail)
    with pytest.raises(OutputError, match="no space left"):
        write_motion(tmp_path / "motion", SMALL, progress=False)
    assert not partial_path(tmp_path / "motion").exists()
    assert list(tmp_path.iterdir()) == []


def test_wrong_options_are_refused():
    for wrong in ({"size": 33}, {"size": 16}, {"num_frames": 4}, {"train_per_class": 0}, {"kind": "letters"}):
        with pytest.raises(ConfigError, match="motion"):
            MotionConfig(**wrong)
