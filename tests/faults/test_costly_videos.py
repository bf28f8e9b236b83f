"""Videos that cost too much, and decoding processes that fail: one video is lost at most, with its reason."""

import struct
import sys
from collections import Counter
from pathlib import Path

import av
import pytest
from settings import skipped
from videos import write_classes, write_numbered

from prism.ingestion import decode, pool
from prism.ingestion.build import ingest
from prism.ingestion.options import IngestConfig
from prism.ingestion.pool import Task

CONFIG = {"num_frames": 4, "stride": 1, "size": 16, "val_fraction": 0.0, "test_fraction": 0.0, "progress": False}


@pytest.fixture
def source(tmp_path) -> Path:
    return write_classes(tmp_path / "source", videos=3, num_frames=8)


def claim_frames(path: Path, box: bytes, claims: dict[int, int]) -> None:
    """Let a box of an mp4 file's index claim frames that the file does not have: byte in the box, number."""
    write_numbered(path, 8)
    data = bytearray(path.read_bytes())
    start = data.index(box) + len(box)
    for at, number in claims.items():
        data[start + at : start + at + 4] = struct.pack(">I", number)
    path.write_bytes(data)


CLAIMS = {"sample sizes": (b"stsz", [8]), "samples of one size": (b"stsz", [4, 8]), "times": (b"stts", [4])}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_header_that_claims_billions_of_frames_costs_neither_time_nor_memory(tmp_path, name):
    box, places = CLAIMS[name]
    slots, video = tmp_path / "slots", tmp_path / "video.mp4"
    slots.write_bytes(bytes(10**6))
    config = IngestConfig(num_frames=4, stride=1, size=32, max_decode_seconds=20.0, max_decode_bytes=2**30)
    worker = pool.Worker()
    try:
        for count in (2**31 - 1, 2**31, 2**32 - 1):
            claim_frames(video, box, dict.fromkeys(places, count))
            outcome = worker.ask(Task(0, str(video), video.name, "train", str(slots), 0, config))
            assert outcome.reason or outcome.video_frames == 8
        lines = Path(f"/proc/{worker.process.pid}/status").read_text().splitlines()
        assert next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) < 2**18
    finally:
        worker.end()


# It stands for the decoding process, and does something to it at a video called v2.
WORKER = """
import os, signal, sys, time
from pathlib import Path
from prism.ingestion import pool as worker
decode, read_clips, folder = worker.decode, worker.read_clips, Path(sys.argv[1])
def log(text):
    with (folder / "log").open("a") as file:
        file.write(text + "\\n")
def first_time(task):
    try:
        (folder / task.relative.replace("/", "-")).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
def failing(task):
    log("begin " + task.relative)
    if "v2" in task.relative:
        {what}
    outcome = decode(task)
    worker.read_clips = read_clips
    log("end " + task.relative)
    return outcome
worker.decode = failing
worker.main()
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    """`log(what)`: let every decoding process do something at v2; the lines that it has written by the end."""
    folder = tmp_path / "logs"
    folder.mkdir()

    def failing(what: str) -> Path:
        script = folder / "worker.py"
        script.write_text(WORKER.replace("{what}", what))
        monkeypatch.setattr(pool, "COMMAND", (sys.executable, "-P", str(script), str(folder)))
        return folder / "log"

    return failing


def test_a_video_whose_process_died_once_is_tried_again_and_nothing_is_lost(source, tmp_path, log):
    expected = ingest(source, tmp_path / "expected", **CONFIG)
    lines = log("first_time(task) and os.kill(os.getpid(), signal.SIGKILL)")
    store = ingest(source, tmp_path / "store", workers=3, **CONFIG)
    assert store.header == expected.header
    assert skipped(store) == {}
    counts = Counter(line for line in lines.read_text().splitlines() if "v2" in line)
    times = {"begin": 2, "end": 1}
    assert counts == {f"{what} {label}/v2.mp4": n for label in ("jump", "walk") for what, n in times.items()}


FAILURES = {
    "ends twice": ("os.kill(os.getpid(), signal.SIGSEGV)", {}, "decoding it ended its process (SIGSEGV).", 2),
    "hangs": (
        "time.sleep(600)",
        {"max_decode_seconds": 1.0},
        "decoding it takes longer than max_decode_seconds = 1.",
        1,
    ),
    "lacks memory": (
        "worker.read_clips = lambda *_, **__: bytearray(2**30)",
        {"max_decode_bytes": 2**30},
        "it takes more memory than there is, or than max_decode_bytes allows.",
        1,
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_video_whose_process_fails_is_listed_and_costs_no_other(source, tmp_path, log, name):
    what, limit, reason, tries = FAILURES[name]
    lines = log(what)
    store = ingest(source, tmp_path / "store", workers=2, **limit, **CONFIG)
    assert skipped(store) == {"jump/v2.mp4": reason, "walk/v2.mp4": reason}
    assert lines.read_text().count("begin jump/v2.mp4") == tries
    assert len(store) == 4


def test_a_decoder_that_runs_out_of_memory_does_not_pass_for_one_that_skips_a_frame():
    """A frame that is left out in silence would shift all that follow."""

    class Exhausted:
        def decode(self, packet: object) -> None:
            raise av.error.MemoryError(12, "Cannot allocate memory")

    with pytest.raises(MemoryError):
        decode._decode(Exhausted(), None)  # type: ignore[arg-type]
