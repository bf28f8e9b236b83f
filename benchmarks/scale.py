"""Claim: what a data set costs follows from its sizes and from a few rates (docs/scale.md).

Videos of a folder that the environment variable PRISM_VIDEOS names are decoded too, for a rate beside the model.
"""

import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data import paper_config, random_store
from benchmarks.measure import Sizes, Spread, read_arguments, report, seconds
from benchmarks.utilisation import iteration_macs
from prism.artifacts.index import ClipSource, StoreHeader, clips_csv
from prism.artifacts.store import ClipStore
from prism.condensation.loop import Condensation
from prism.ingestion import worker
from prism.ingestion.motion import write_video
from prism.ingestion.options import IngestConfig, MotionConfig
from prism.ingestion.pairs import draw
from prism.ingestion.plan import make_plan
from prism.ingestion.pool import Worker
from prism.machine.files import file_sha256
from prism.machine.randomness import generator


@dataclass(frozen=True)
class Problem:
    """A data set, and what is to be made of it.

    Attributes:
        videos: training videos, one clip of each.
        frames: frames of a video that are decoded for its clip, from the key frame before it.
        pixels: pixels of one of them.
        sizes: clips, classes, real batch, videos per class and network.
        iterations: of the condensation.
    """

    videos: int
    frames: int
    pixels: int
    sizes: Sizes
    iterations: int = 5000


@dataclass(frozen=True)
class Rates:
    """What a machine takes; all in seconds or bytes, of one process.

    Attributes:
        video: seconds to open a video and find its frames.
        frame: seconds for each frame that is decoded, and
        pixel: for each pixel of it.
        iteration: seconds of an iteration whatever its clips, and
        mac: for each multiply-add of the network.
        row: seconds to draw a real batch, for each training clip that there is.
        checked: seconds to check a byte of a store when it is opened.
        row_bytes: memory that a row of the index takes while a store is open.
        text_bytes: the same row in clips.csv.
    """

    video: float
    frame: float
    pixel: float
    iteration: float
    mac: float
    row: float
    checked: float
    row_bytes: float
    text_bytes: float


def clip_bytes(sizes: Sizes) -> int:
    """Bytes of a clip in a store; exact."""
    return sizes.num_frames * 3 * sizes.size**2


def store_bytes(problem: Problem, rates: Rates) -> float:
    """Bytes of the finished store; an ingest that skips a video needs twice as many while it runs."""
    return problem.videos * (clip_bytes(problem.sizes) + rates.text_bytes)


def decode_seconds(problem: Problem, rates: Rates) -> float:
    """Processor time of an ingest; divide it by the number of workers."""
    return problem.videos * (rates.video + problem.frames * (rates.frame + rates.pixel * problem.pixels))


def open_seconds(problem: Problem, rates: Rates) -> float:
    """Time to check a store, which every command does once."""
    return store_bytes(problem, rates) * rates.checked


def draw_seconds(problem: Problem, rates: Rates) -> float:
    """Time to draw the real batch of an iteration."""
    return problem.videos * rates.row


def iteration_seconds(problem: Problem, rates: Rates) -> float:
    """Time of an iteration with a fresh real batch."""
    macs = iteration_macs(problem.sizes, problem.sizes.batch_real)
    return rates.iteration + macs * rates.mac + draw_seconds(problem, rates)


def batch_bytes(problem: Problem) -> int:
    """Bytes of clips that an iteration with a fresh real batch reads, anywhere in the store."""
    return problem.sizes.classes * problem.sizes.batch_real * clip_bytes(problem.sizes)


def synthetic_bytes(problem: Problem) -> int:
    """Memory of the trainable videos: values, gradient, momentum, rendered clips and their gradient, float32."""
    sizes = problem.sizes
    return 5 * 4 * sizes.classes * sizes.vpc * clip_bytes(sizes)


# Rates, each from sizes that take no part in the check of the model.

FITTED, CHECKED = ((8, 64), (32, 64), (32, 160)), ((16, 96), (24, 128))
"""Frames and side of the videos that rates are fitted to, and of those that they must predict."""


def decoding(folder: Path, config: IngestConfig) -> Callable[[], object]:
    """The work of decoding every video of a folder in this process, as one of the processes of an ingest does."""
    plan = make_plan(folder, config)
    slots = folder.with_suffix(".slots")
    with slots.open("wb") as file:
        file.truncate(plan.offsets[-1])

    def work() -> None:
        for number in range(len(plan.videos)):
            assert worker.decode(plan.task(number, slots)).windows

    return work


def write_videos(folder: Path, num_frames: int, size: int) -> Path:
    """Four videos of the motion data set."""
    random = np.random.default_rng(0)
    for label in ("left", "right"):
        (folder / label).mkdir(parents=True)
        for index in range(2):
            frames = draw(label, MotionConfig(num_frames=num_frames, size=size), random)
            write_video(folder / label / f"{index}.mp4", frames)
    return folder


def whole_videos(sizes: Sizes, num_frames: int) -> IngestConfig:
    """Clips that need every frame of their video."""
    return IngestConfig(num_frames=num_frames, stride=1, size=sizes.size, val_fraction=0, test_fraction=0)


def decode_rates(sizes: Sizes, rates: Rates) -> tuple[dict[str, Any], Rates]:
    """Rows for the report, and rates with those of decoding."""
    with tempfile.TemporaryDirectory() as folder:
        works = {
            shape: decoding(
                write_videos(Path(folder) / f"{shape[0]}x{shape[1]}", *shape), whole_videos(sizes, shape[0])
            )
            for shape in (*FITTED, *CHECKED)
        }
        found = seconds({str(shape): work for shape, work in works.items()}, sizes)
    spent = {shape: Spread.of([time / 4 for time in found[str(shape)]]) for shape in works}
    terms = [[1, frames, frames * side**2] for frames, side in FITTED]
    video, frame, pixel = np.linalg.solve(terms, [spent[shape].median for shape in FITTED]).tolist()
    rates = replace(rates, video=video, frame=frame, pixel=pixel)
    rows: dict[str, Any] = {f"decode {n} frames of {s}×{s}, s": spent[n, s] for n, s in works}
    for frames, side in CHECKED:
        predicted = decode_seconds(Problem(1, frames, side**2, sizes), rates)
        rows[f"decode {frames} of {side}×{side}: predicted / measured"] = predicted / spent[frames, side].median
    return rows | {"decode, ms a video": 1e3 * video, "ms a frame": 1e3 * frame, "ns a pixel": 1e9 * pixel}, rates


def worker_memory(sizes: Sizes) -> dict[str, Any]:
    """The largest resident memory of a decoding process, as the system counts it from the process's own start."""
    frames, side = FITTED[-1]
    with tempfile.TemporaryDirectory() as folder:
        videos = write_videos(Path(folder) / "videos", frames, side)
        plan, slots = make_plan(videos, whole_videos(sizes, frames)), Path(folder) / "slots"
        slots.write_bytes(bytes(plan.offsets[1]))
        process = Worker()
        try:
            process.ask(plan.task(0, slots))
            status = Path(f"/proc/{process.process.pid}/status").read_text()
        finally:
            process.end()
    (peak,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return {"memory of a worker, MiB": peak / 1024}


def real_videos(sizes: Sizes) -> dict[str, Any]:
    """Clips that one process makes in a second of every tenth of the first 200 videos that PRISM_VIDEOS holds."""
    source = os.environ.get("PRISM_VIDEOS")
    if not source:
        return {}
    videos = sorted(path for path in Path(source).rglob("*") if path.suffix in (".avi", ".mp4"))[:200:10]
    with tempfile.TemporaryDirectory() as folder:
        for number, video in enumerate(videos):
            copy = Path(folder) / "videos" / str(number % 2) / f"{number}{video.suffix}"
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(video, copy)
        config = IngestConfig(num_frames=16, stride=4, size=112, val_fraction=0, test_fraction=0)
        found = seconds({"real": decoding(Path(folder) / "videos", config)}, sizes)["real"]
    return {"real videos, 16×112×112 with stride 4, clips/s": Spread.of([len(videos) / time for time in found])}


def condense_rates(sizes: Sizes, rates: Rates) -> tuple[dict[str, Any], Rates]:
    """Rows for the report, and rates with those of an iteration."""
    start = replace(sizes, classes=2, batch_real=min(8, sizes.batch_real), width=min(16, sizes.width))
    fitted = start, replace(start, classes=4, batch_real=2 * start.batch_real)
    checked = {
        "5 classes": replace(start, classes=5),
        "three times the batch, twice the frames": replace(
            start, batch_real=3 * start.batch_real, num_frames=2 * start.num_frames
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        works = {
            str(number): Condensation(
                random_store(Path(folder) / str(number), one), paper_config(one), torch.device("cpu")
            ).step
            for number, one in enumerate((*fitted, *checked.values()))
        }
        spent = [Spread.of(times) for times in seconds(works, sizes).values()]
    terms = [[1, iteration_macs(one, one.batch_real)] for one in fitted]
    iteration, mac = np.linalg.solve(terms, [spread.median for spread in spent[:2]]).tolist()
    rates = replace(rates, iteration=iteration, mac=mac)
    rows: dict[str, Any] = {"iteration, ms whatever its clips": 1e3 * iteration, "iteration, GMAC/s": 1e-9 / mac}
    for (name, one), spread in zip(checked.items(), spent[2:], strict=True):
        rows[f"iteration, {name}, s"] = spread
        predicted = iteration_seconds(Problem(0, 0, 0, one), rates)
        rows[f"iteration, {name}: predicted / measured"] = predicted / spread.median
    return rows, rates


def index_rates(sizes: Sizes, rates: Rates) -> tuple[dict[str, Any], Rates]:
    """Rows for the report, and rates with what an index takes; its growth is checked over ten times the rows."""
    small, large = 10_000, 100_000
    figures = {num: _index(sizes, num) for num in (small, large)}
    memory, text, drawn = (value / large for value in figures[large])
    rates = replace(rates, row_bytes=memory, text_bytes=text, row=drawn)
    rows: dict[str, Any] = {"index, bytes a row in memory": memory, "index, bytes a row in clips.csv": text}
    rows["index, ns a row to draw a batch"] = 1e9 * drawn
    for name, found, rate in zip(("memory", "text", "draw"), figures[small], (memory, text, drawn), strict=True):
        rows[f"index of {small:,} rows, {name}: predicted / measured"] = small * rate / found
    return rows, rates


def _index(sizes: Sizes, num_rows: int) -> tuple[float, float, float]:
    """Bytes in memory, bytes of clips.csv, and seconds to draw a batch."""
    classes = tuple(f"class{label:03}" for label in range(100))
    tracemalloc.start()
    sources = [
        ClipSource("train", name, f"{name}/video{number:09}.mp4", number, 4, 300)
        for name in classes
        for number in range(num_rows // len(classes))
    ]
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    splits = {"train": len(sources), "val": 0, "test": 0}
    store = ClipStore(Path(), StoreHeader(8, (64, 64), classes, splits, 0, True, (), (), {}, {}), sources)
    drawn = seconds({"draw": lambda: store.sample(64, generator(0, "batch"))}, sizes)["draw"]
    return held, len(clips_csv(sources)), Spread.of(drawn).median


def check_rates(sizes: Sizes, rates: Rates) -> tuple[dict[str, Any], Rates]:
    """A row for the report, and rates with that of a checksum."""
    num_bytes = 2**26
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.u8"
        path.write_bytes(bytes(num_bytes))
        found = Spread.of(seconds({"check": lambda: file_sha256(path)}, sizes)["check"])
    rates = replace(rates, checked=found.median / num_bytes)
    return {"checksum, MB/s": 1e-6 / rates.checked}, rates


# Predictions

PUBLISHED = Sizes(classes=400, batch_real=64, vpc=1, num_frames=8, size=64, width=64)
PROBLEMS = {
    "Kinetics-400": Problem(240_000, 150, 340 * 256, PUBLISHED),
    "1e8 clips": Problem(10**8, 150, 340 * 256, replace(PUBLISHED, classes=10_000)),
}
"""One clip of each video of ten seconds; 150 of its frames lie between a key frame and the clip's end."""
GPU = 0.4 * 156e12 / 2
"""Multiply-adds a second that are assumed of a GPU, not measured: 40 % of a data sheet's 156 TFLOP/s in TF32."""


def predictions(name: str, problem: Problem, rates: Rates) -> dict[str, Any]:
    """What a problem costs, on this machine and on an assumed GPU."""
    on_gpu = replace(rates, mac=1 / GPU)
    facts = {
        "decode, core hours": decode_seconds(problem, rates) / 3600,
        "store, GB": store_bytes(problem, rates) / 1e9,
        "check when opened, s": open_seconds(problem, rates),
        "index in memory, GB": problem.videos * rates.row_bytes / 1e9,
        "read in an iteration, GB": batch_bytes(problem) / 1e9,
        "drawing a batch, s": draw_seconds(problem, rates),
        "synthetic videos in memory, GB": synthetic_bytes(problem) / 1e9,
        "iteration, s": iteration_seconds(problem, rates),
        "iterations, core hours": problem.iterations * iteration_seconds(problem, rates) / 3600,
        "iterations, GPU hours (assumed)": problem.iterations * iteration_seconds(problem, on_gpu) / 3600,
    }
    return {f"{name}: {fact}": value for fact, value in facts.items()}


def measure(sizes: Sizes) -> dict[str, Any]:
    """Rates, predictions beside measurements that took no part in them, and predictions of what is too large."""
    rows: dict[str, Any] = {}
    rates = Rates(*[0.0] * 9)
    for part in (decode_rates, condense_rates, index_rates, check_rates):
        found, rates = part(sizes, rates)
        rows |= found
    rows |= real_videos(sizes) | worker_memory(sizes)
    for name, problem in PROBLEMS.items():
        rows |= predictions(name, problem, rates)
    return rows


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("scale", sizes, measure(sizes), output)
