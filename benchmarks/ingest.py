"""Claim: ingest takes little more than decoding and resizing, and its memory does not grow with the videos."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
from PIL import Image

from benchmarks.measure import Sizes, Spread, ratios, read_arguments, report, seconds
from prism.artifacts.store import ClipStore
from prism.ingestion.build import ingest
from prism.ingestion.motion import write_motion
from prism.ingestion.sampling import Window

Job = tuple[str, list[int], int]
"""A video, the frames wanted of it, and their side in pixels."""

PEAK = """
import json, re, resource, sys
from pathlib import Path
from prism.ingestion.build import ingest
ingest(*sys.argv[1:3], **json.loads(sys.argv[3]))
status = Path("/proc/self/status")
own = re.search("VmHWM:[^0-9]*([0-9]+)", status.read_text())[1] if status.exists() else "0"
print(int(own) + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""The largest memory of the process in KiB, and that of the largest of its decoding processes. The system's usual
count of the first, `RUSAGE_SELF`, begins with that of the process which started it."""


def bare_loop(jobs: list[Job], processes: int) -> None:
    """Decode and resize the same frames, and do nothing else: no check, no limit, no file, no journal."""
    # Its processes inherit nothing, like those of ingest.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for _ in pool.imap_unordered(_read, jobs, chunksize=4):
            pass
        pool.close()
        pool.join()


def _read(job: Job) -> None:
    path, indices, size = job
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        for index, frame in enumerate(container.decode(stream)):
            if index in indices:
                image = frame.to_image()
                side = min(image.size)
                left, top = ((extent - side) / 2 for extent in image.size)
                image.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + side, top + side))
            if index >= indices[-1]:
                return


def jobs_of(source: Path, store: ClipStore) -> list[Job]:
    """The frames that a store was made of, as jobs of the bare loop."""
    return [
        (
            str(source / clip.path),
            Window(clip.start, clip.stride).indices(store.num_frames, clip.video_frames),
            store.size[0],
        )
        for clip in store.sources
    ]


def peak_mebibytes(source: Path, output: Path, options: dict[str, Any]) -> float:
    """The memory that ingesting takes in a process of its own."""
    command = [sys.executable, "-c", PEAK, str(source), str(output), json.dumps(options)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1]) / 1024


def measure(sizes: Sizes) -> dict[str, Any]:
    """Videos a second of the bare loop and of ingest, their ratio, and the memory for few and for many videos."""
    processes = sizes.threads or len(os.sched_getaffinity(0))
    options = {"num_frames": sizes.num_frames, "size": sizes.size, "workers": processes}
    with tempfile.TemporaryDirectory() as folder:
        few, many = (_videos(Path(folder) / str(share), sizes, share) for share in (8, 1))
        peaks = [peak_mebibytes(source, Path(folder) / f"{source.name}.store", options) for source in (few, many)]
        source = Path(sizes.videos) if sizes.videos else many
        jobs = jobs_of(source, ingest(source, Path(folder) / "store", **options))
        works = {
            "ours": lambda: ingest(source, Path(folder) / "store", overwrite=True, **options),
            "bare": lambda: bare_loop(jobs, processes),
        }
        # The processor time that counts is that of the processes which decode.
        found = seconds(works, replace(sizes, clock="children") if sizes.clock == "process" else sizes)
    rates = {name: [len(jobs) / time for time in times] for name, times in found.items()}
    return {
        "videos": len(jobs),
        "processes": processes,
        "bare loop, videos/s": Spread.of(rates["bare"]),
        "ingest, videos/s": Spread.of(rates["ours"]),
        "ingest as a share of the bare loop": ratios(found["bare"], found["ours"]),
        "peak memory of an eighth of the videos, MiB": peaks[0],
        "peak memory of all, MiB": peaks[1],
    }


def _videos(folder: Path, sizes: Sizes, share: int) -> Path:
    per_class = max(1, sizes.batch_real // share)
    return write_motion(
        folder, train_per_class=per_class, test_per_class=1, size=sizes.size // 2 * 2, progress=False
    )


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("ingest", sizes, measure(sizes), output)
