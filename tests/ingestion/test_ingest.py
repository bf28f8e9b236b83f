"""Ingest as a whole: the same bytes whatever happens on the way, and a sentence where it cannot go on."""

import json
import os
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from settings import contents, printed, refusal_of, skipped
from videos import shown_number, write_audio, write_classes, write_images, write_numbered

from prism.artifacts.store import ClipStore
from prism.errors import Interrupted, OutputError, SourceError
from prism.ingestion import build, pool
from prism.ingestion.build import WorkingFolder, ingest, mean_and_std
from prism.ingestion.decode import LONG_VIDEO, Outcome
from prism.ingestion.listing import LINKED_OUT
from prism.ingestion.options import IngestConfig
from prism.ingestion.pool import Task
from prism.ingestion.sampling import Window, choose_windows
from prism.machine import files as runtime
from prism.machine.files import partial_path

CONFIG = IngestConfig(num_frames=4, stride=2, size=32, val_fraction=0.25, test_fraction=0.25)


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return write_classes(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def expected(source, tmp_path_factory) -> dict[str, bytes]:
    """The files of the store that one worker makes of `source`."""
    return contents(make(source, tmp_path_factory.mktemp("expected") / "store", workers=1).path)


def make(source: Path, output: Path, config: IngestConfig = CONFIG, workers: int = 2, **more: bool) -> ClipStore:
    return ingest(source, output, config, workers=workers, progress=False, **more)


def leftovers(output: Path) -> list[str]:
    return [path.name for path in output.parent.iterdir() if path != output]


def test_the_store_holds_the_frames_that_its_index_names(source, tmp_path):
    store = make(source, tmp_path / "store", IngestConfig(num_frames=4, stride=2, size=32, clips_per_video=2))
    assert (len(store), store.num_frames, store.size, store.classes) == (8 + 4, 4, (32, 32), ("jump", "walk"))
    assert store.header.splits == {"train": 8, "val": 2, "test": 2}
    clips = [clip for split in ("train", "val", "test") for clip in store.clips(split).frames.numpy()]
    for clip, index in zip(clips, store.sources, strict=True):
        c, k = store.classes.index(index.label), int(index.path[-5])
        first = 50 * c + 7 * k + index.start
        assert [shown_number(frame) for frame in clip] == [first + t * index.stride for t in range(4)]
        assert index.video_frames == 20
        assert index.split == "train" or index.start == 6
    assert ClipStore.open(store.path, verify=True).header == store.header


def test_what_is_done_is_not_decoded_again_nor_copied_if_no_video_failed(source, expected, tmp_path, monkeypatch):
    unfinished(source, tmp_path / "store", monkeypatch)
    (slots,) = partial_path(tmp_path / "store").glob("*.u8")
    number = slots.stat().st_ino
    monkeypatch.setattr(pool, "Worker", None)
    assert contents(make(source, tmp_path / "store").path) == expected
    assert (tmp_path / "store/frames.u8").stat().st_ino == number


def test_random_test_windows_are_a_split_of_their_own_and_change_no_other(source, expected, tmp_path):
    store = make(source, tmp_path / "store", replace(CONFIG, random_test_windows=3))
    for name in ("frames.u8", "clips.csv"):
        assert (store.path / name).read_bytes().startswith(expected[name])
    header = json.loads(expected["store.json"])
    assert store.header.splits == header["splits"] | {"test-random": 6}
    assert list(store.header.mean) == header["mean"]
    sources = [store.sources[at] for at in store.positions("test-random")]
    assert [s.path for s in sources[::3]] == [store.sources[at].path for at in store.positions("test")]
    for clip, index in zip(store.clips("test-random").frames.numpy(), sources, strict=True):
        first = 50 * store.classes.index(index.label) + 7 * int(index.path[-5]) + index.start
        assert [shown_number(frame) for frame in clip] == [first, first + 2, first + 4, first + 6]
    assert all(len({(s.start, s.stride) for s in sources[k : k + 3]}) == 3 for k in (0, 3))


def test_a_test_video_too_short_for_three_windows_gives_some_again():
    config = IngestConfig(num_frames=4, stride=1, random_test_windows=3)
    centre, *drawn = choose_windows(config, "v.mp4", "test", 5, [range(5)], Fraction(25))
    assert centre == Window(0, 1)
    assert {window.start for window in drawn} == {0, 1}
    assert drawn[2] == drawn[0]
    assert choose_windows(config, "v.mp4", "test", 3, [range(3)], Fraction(25)) == [Window(0, 1)] * 4


def test_an_executor_makes_the_same_bytes(source, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "SHARD_VIDEOS", 3)
    broken = shutil.copytree(source, tmp_path / "source")
    first = sorted(broken.rglob("*.mp4"))[0]
    first.write_bytes(first.read_bytes()[:50])
    with ThreadPoolExecutor(2) as executor:
        store = ingest(source, tmp_path / "store", CONFIG, executor=executor, progress=False)
        again = ingest(broken, tmp_path / "again", CONFIG, executor=executor, progress=False)
    assert contents(store.path) == expected
    assert contents(again.path) == contents(make(broken, tmp_path / "here").path)
    assert len(skipped(again)) == 1
    assert not partial_path(tmp_path / "store").exists()


def test_ctrl_c_leaves_what_is_done_for_the_next_run(source, expected, tmp_path, monkeypatch, capfd):
    record = WorkingFolder.record

    def interrupting(folder: WorkingFolder, video: int, outcome: Outcome) -> None:
        record(folder, video, outcome)
        if len(folder.outcomes) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(WorkingFolder, "record", interrupting)
        with pytest.raises(Interrupted, match=r"^stopped\. Run the same command again to go on"):
            make(source, tmp_path / "store")
    assert not (tmp_path / "store").exists()
    store = ingest(source, tmp_path / "store", CONFIG, workers=1, progress=True)
    assert "3 of 8 videos are done already: going on." in capfd.readouterr().err
    assert contents(store.path) == expected


def unfinished(source: Path, output: Path, monkeypatch: pytest.MonkeyPatch, before: str = "_assemble") -> None:
    """Leave the working folder of a run that was stopped before it put the store together."""

    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"prism.ingestion.build.{before}", stop)
        with pytest.raises(Interrupted):
            make(source, output)
    assert partial_path(output).exists()
    assert not output.exists()


def task_of(video: Path, slots: Path) -> Task:
    """A training video to decode to the start of a file."""
    return Task(0, str(video), video.name, "train", str(slots), 0, IngestConfig(num_frames=4, stride=2, size=32))


def test_what_a_run_leaves_that_is_stopped_as_its_store_gets_a_name_goes(source, expected, tmp_path, monkeypatch):
    unfinished(source, tmp_path / "store", monkeypatch, "files.replace_folder")
    assert contents(make(source, tmp_path / "store").path) == expected
    assert leftovers(tmp_path / "store") == []
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "discard_older", lambda path: None)
        make(source, tmp_path / "store", overwrite=True)
    assert leftovers(tmp_path / "store") == [".store.prism-old"]
    assert "exists already" in refusal_of(OutputError, make, source, tmp_path / "store")
    assert contents(tmp_path / "store") == expected
    assert leftovers(tmp_path / "store") == []


def test_a_decoding_process_that_outlives_its_run_cannot_write_into_another_plans_slots(source, tmp_path):
    slots = WorkingFolder(tmp_path / "folder", "old plan", [0, 10]).slots
    new = WorkingFolder(tmp_path / "folder", "new plan", [0, 10**6])
    assert "cannot be written" in refusal_of(OutputError, pool.decode, task_of(source / "jump/v0.mp4", slots))
    assert not any(new.slots.read_bytes())
    assert not slots.exists()


def test_other_settings_or_a_changed_source_start_again(source, expected, tmp_path, monkeypatch, capfd):
    shutil.copytree(source, tmp_path / "source")
    unfinished(tmp_path / "source", tmp_path / "store", monkeypatch)
    video = write_numbered(tmp_path / "source/jump/v0.mp4", 20, first=100)
    store = ingest(tmp_path / "source", tmp_path / "store", CONFIG, workers=2, progress=True)
    assert "have changed: starting again." in capfd.readouterr().err
    assert contents(store.path) != expected
    shutil.copy2(source / "jump/v0.mp4", video)
    unfinished(tmp_path / "source", tmp_path / "other", monkeypatch)
    make(tmp_path / "source", tmp_path / "other", IngestConfig(num_frames=5, size=16))
    assert ClipStore.open(tmp_path / "other").num_frames == 5


def test_broken_videos_are_skipped_with_their_reasons(source, tmp_path):
    root = shutil.copytree(source, tmp_path / "root")
    (root / "jump/empty.mp4").touch()
    (root / "jump/text.mp4").write_text("no video")
    (root / "walk/truncated.mp4").write_bytes((source / "walk/v0.mp4").read_bytes()[:-1500])
    (root / "walk/link.mp4").symlink_to(source / "walk/v1.mp4")
    write_audio(root / "walk/audio.mp4")
    write_numbered(root / "jump/one.mp4", 1)
    write_images(root / "jump/frames", 9)
    config = IngestConfig(num_frames=4, stride=2, size=32, val_fraction=0, test_fraction=0)
    store = make(root, tmp_path / "store", config)
    assert skipped(store) == {
        "jump/empty.mp4": "the file is empty.",
        "jump/one.mp4": "there is only one frame, which cannot show a motion.",
        "jump/text.mp4": "it cannot be opened as a video: invalid data found when processing input.",
        "walk/audio.mp4": "there is no video in it, only audio.",
        "walk/link.mp4": LINKED_OUT,
        "walk/truncated.mp4": "it cannot be opened as a video: invalid data found when processing input.",
    }
    assert store.header.num_skipped == 6
    good = {f"{c}/v{k}.mp4" for c in store.classes for k in range(4)}
    assert {s.path for s in store.sources} == good | {"jump/frames"}
    frames = store.clips("train").frames.numpy()
    at = [s.path for s in store.sources].index("walk/v0.mp4")
    first = store.sources[at].start + 50
    assert [shown_number(frame) for frame in frames[at]] == [first, first + 2, first + 4, first + 6]
    assert contents(make(root, tmp_path / "again", config, workers=1).path) == contents(store.path)


def test_damage_is_listed_and_the_kinds_of_reasons_are_summed_up(source, tmp_path, capfd):
    root = shutil.copytree(source, tmp_path / "root")
    for k in range(3):
        write_numbered(root / f"jump/{k}.mp4", 20 - k, container={"movflags": "faststart"})
    for name in ("0", "1"):
        (root / f"walk/{name}.mp4").write_text("no video")
    write_numbered(root / "walk/one.mp4", 1)
    data = (root / "jump/0.mp4").read_bytes()
    (root / "jump/0.mp4").write_bytes(data[:-250])
    options = {"num_frames": 4, "stride": 1, "size": 32, "val_fraction": 0, "test_fraction": 0, "progress": False}
    store = ingest(root, tmp_path / "store", **options)
    text = " ".join(capfd.readouterr().err.split())
    assert (
        "Skipped 3 of 14 videos, see skipped.csv: 2 ('walk/0.mp4', 'walk/1.mp4') because it cannot be opened as a "
        "video: invalid data found when processing input. 1 ('walk/one.mp4') because there is only one frame, "
        "which cannot show a motion. 1 of 11 used videos are cut short or damaged outside of their clips, "
        "see damaged.csv, such as 'jump/0.mp4': "
    ) in text
    assert (store.path / "damaged.csv").read_text().startswith("path,damage\njump/0.mp4,it ends after ")
    again = ingest(root, store.path, **options, damaged="skip", overwrite=True)
    assert skipped(again)["jump/0.mp4"].startswith("it ends after ")
    assert not (again.path / "damaged.csv").exists()


def test_videos_that_were_not_looked_at_as_a_whole_are_counted(tmp_path, capfd):
    root = write_classes(tmp_path / "root", videos=1)
    write_numbered(root / "walk/long.mp4", LONG_VIDEO, options={"preset": "ultrafast"})
    options = {"num_frames": 4, "stride": 1, "size": 32, "val_fraction": 0, "test_fraction": 0, "progress": False}
    for damaged, num in (("use", 1), ("skip", 0)):
        ingest(root, tmp_path / damaged, **options, damaged=damaged)
        text = " ".join(capfd.readouterr().err.split())
        assert text.count("1 of 3 videos are long: only the parts that their clips need were decoded") == num


def test_a_class_left_without_test_videos_is_named_with_the_first_reason_and_keeps_its_split(tmp_path, capfd):
    root = tmp_path / "root"
    for split, num_frames in (("train", 20), ("test", 21)):
        write_classes(root / split, num_frames=num_frames)
    for video in (root / "test/walk").iterdir():
        video.write_bytes(b"")
    store = make(root, tmp_path / "store", IngestConfig(num_frames=4, size=32, val_fraction=0), workers=1)
    assert " ".join(capfd.readouterr().err.split()) == (
        "Caution: class 'walk' has no usable test video: all 4 were skipped, the first ('test/walk/v0.mp4') "
        "because the file is empty. Splits are not cut again: mend or remove those videos and ingest again. "
        "Skipped 4 of 16 videos, see skipped.csv: 4 "
        "('test/walk/v0.mp4', 'test/walk/v1.mp4', 'test/walk/v2.mp4', …) because the file is empty."
    )
    assert [store.counts(split).tolist() for split in ("train", "test")] == [[4, 4], [4, 0]]


def test_a_picture_that_is_broken_and_whose_name_is_no_utf_8_is_reported(source, tmp_path):
    root = shutil.copytree(source, tmp_path / "root")
    picture = write_images(root / "jump/frames", 3) / "frame1.png"
    picture.rename(picture.with_name(os.fsdecode(b"frame\xe9.png")))
    said = skipped(make(root, tmp_path / "store"))["jump/frames"]
    assert said.startswith("its pictures belong to several series (frame#.png, frame\\udce9.png)")


def test_videos_shorter_than_a_clip_are_counted_and_one_is_named(tmp_path, capfd):
    root = write_classes(tmp_path / "root")
    write_numbered(root / "jump/w.mp4", 8)
    make(root, tmp_path / "store", IngestConfig(num_frames=9, size=32), workers=1)
    text = " ".join(capfd.readouterr().err.split())
    assert "1 of 9 used videos have fewer than 9 frames, such as 'jump/w.mp4'. Their clips repeat" in text


def test_a_class_left_without_training_videos_is_named_with_the_first_reason(source, tmp_path):
    root = shutil.copytree(source, tmp_path / "root")
    for k in range(3):
        (root / "sit").mkdir(exist_ok=True)
        (root / f"sit/{k}.mp4").touch()
    config = IngestConfig(num_frames=4, size=32, val_fraction=0, test_fraction=0)
    said = refusal_of(SourceError, make, root, tmp_path / "store", config)
    first = "all 3 were skipped, the first ('sit/0.mp4') because the file is empty."
    assert said == f"class 'sit' has no usable training video: {first}"
    assert not (tmp_path / "store").exists()


def test_a_process_that_does_not_start_is_no_fault_of_the_videos(source, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    with pytest.raises(RuntimeError, match=r"did not start: exit code 3"):
        make(source, tmp_path / "store")


def test_a_disk_that_is_full_at_the_start_leaves_nothing(source, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2**20, 2**20, 0))
    with pytest.raises(OutputError, match=r"no space left to write .* MiB free\)"):
        make(source, tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_a_decoding_process_says_so_when_it_cannot_write(source, tmp_path):
    task = task_of(source / "jump/v0.mp4", Path("/dev/full"))
    worker = pool.Worker()
    try:
        assert "no space left to write '/dev/full'" in refusal_of(OutputError, worker.ask, task)
    finally:
        worker.end()


def test_a_process_that_starts_while_decoding_is_stopped_gets_no_video(monkeypatch):
    asked = []

    class Slow:
        """Its process has started only after decoding was stopped."""

        def __init__(self) -> None:
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
            self.ask = asked.append

        def end(self) -> str:
            return ""

    monkeypatch.setattr(pool, "Worker", Slow)
    with pytest.raises(KeyboardInterrupt):
        next(pool.decode_all([task_of(Path("video.mp4"), Path("slots"))] * 2, 1))
    assert asked == []


def test_an_output_that_is_there_is_kept(source, expected, tmp_path):
    (output := tmp_path / "store").mkdir()
    (output / "thesis.tex").write_text("years of work")
    assert "exists already" in refusal_of(OutputError, make, source, output)
    with pytest.raises(OutputError, match="is not a clip store, so it is not overwritten"):
        make(source, output, overwrite=True)
    (mine := partial_path(tmp_path / "new")).mkdir()
    (mine / "thesis.tex").write_text("years of work")
    assert "is in the way, and no unfinished store" in refusal_of(OutputError, make, source, tmp_path / "new")
    assert all((folder / "thesis.tex").exists() for folder in (output, mine))
    shutil.rmtree(mine)
    make(source, tmp_path / "other", IngestConfig(num_frames=5, size=16))
    assert contents(make(source, tmp_path / "other", overwrite=True).path) == expected
    assert leftovers(tmp_path / "other") == ["store"]
    (tmp_path / "other/set.safetensors").write_bytes(b"days of work")
    with pytest.raises(OutputError, match=r"set\.safetensors' is no part of a clip store, so '.*other' is not"):
        make(source, tmp_path / "other", overwrite=True)


@pytest.mark.parametrize(("option", "text", "flip"), [
    ("auto", None, True),
    ("auto", '{"flip": false}', False),
    ("auto", '{"flip": true}', True),
    ("auto", '{"flip": false, "made_by": "prism motion"}', False),
    ("on", '{"flip": false}', True),
    ("off", None, False),
])  # fmt: skip
def test_whether_a_flip_keeps_the_labels_is_the_sources_or_the_users_word(source, tmp_path, option, text, flip):
    root = shutil.copytree(source, tmp_path / "root")
    if text is not None:
        (root / "prism.json").write_text(text)
    assert build.make_plan(root, IngestConfig(flip=option)).flip is flip


@pytest.mark.parametrize("text", ["", "[]", '{"flip": 0}', "{}", "[" * 100_000])
def test_a_word_that_is_not_understood_is_refused(source, tmp_path, text):
    root = shutil.copytree(source, tmp_path / "root")
    (root / "prism.json").write_text(text)
    assert "prism.json' must be" in refusal_of(SourceError, build.make_plan, root, IngestConfig())


def test_pixel_statistics_are_those_of_numpy():
    clips = np.random.default_rng(0).integers(0, 256, (5, 2, 3, 4, 4), dtype=np.uint8)
    mean, std = mean_and_std(np.stack([np.bincount(clips[:, :, c].ravel(), minlength=256) for c in range(3)]))
    scaled = clips.astype(np.float64) / 255
    np.testing.assert_allclose(mean, scaled.mean((0, 1, 3, 4)), rtol=1e-12)
    np.testing.assert_allclose(std, scaled.std((0, 1, 3, 4)), rtol=1e-12)
    # A constant channel can still be divided by its deviation.
    assert mean_and_std(np.eye(1, 256, dtype=np.int64).repeat(3, 0)) == ((0.0,) * 3, (1 / 255,) * 3)


def test_a_journal_survives_any_cut(tmp_path):
    outcomes = [Outcome((Window(3, 2),), 20), Outcome(reason="the file is empty."), Outcome((Window(1, 1),), 9)]
    folder = WorkingFolder(tmp_path / "folder", "plan", [0, 1, 2, 3])
    for number, outcome in enumerate(outcomes):
        folder.record(number, outcome)
    folder.sync()
    whole = folder.journal.read_bytes()
    for length in range(len(whole) + 1):
        folder.journal.write_bytes(whole[:length])
        again = WorkingFolder(tmp_path / "folder", "plan", [0, 1, 2, 3])
        assert again.outcomes == dict(enumerate(outcomes[: whole[:length].count(b"\n")]))
        assert json.loads(f"[{','.join(again.journal.read_text().splitlines())}]") is not None


def test_ingest_works_from_a_thread_and_a_script_without_a_main_guard(source, expected, tmp_path):
    stores = []
    thread = threading.Thread(target=lambda: stores.append(make(source, tmp_path / "store")))
    thread.start()
    thread.join()
    assert contents(stores[0].path) == expected
    options = "num_frames=4, stride=2, size=32, val_fraction=0.25, test_fraction=0.25, progress=False"
    printed(f"import prism, sys; prism.ingest(*sys.argv[1:], {options})", source, tmp_path / "script")
    assert contents(tmp_path / "script") == expected
