"""`prism motion`: the built-in data sets as real video files, in the layout of any user's data."""

import io
import os
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import av
import numpy as np

from prism.config import as_path
from prism.ingestion.drawings import GLYPH_CLASSES, MOTIONS, Array, draw_glyphs, draw_pairs
from prism.ingestion.options import MotionConfig
from prism.machine.files import (
    check_output_folder,
    discard_older,
    lock,
    partial_path,
    replace_folder,
    sync_folder,
    write_synced,
    writing,
)
from prism.machine.progress import progress_bar
from prism.machine.randomness import derive_seed
from prism.machine.run import OUTPUT, Run, split_options
from prism.machine.text_io import canonical_json

FRAMES_PER_SECOND = 12
MADE_BY = "prism motion"
KINDS: dict[str, tuple[Collection[str], Callable[[str, int, int, np.random.Generator], Array]]] = {
    "pairs": (MOTIONS, draw_pairs),
    "glyphs": (GLYPH_CLASSES, draw_glyphs),
}
"""For each kind its classes, and what draws a video of a class."""


def write_video(path: Path, frames: Array) -> None:
    """Encode (T, H, W, 3) uint8 frames, H and W even, as H.264 in an mp4 file (yuv420p, crf 18)."""
    # The same bytes every time: no threads, and no macroblock tree, whose rate control reads memory that x264
    # never wrote when a picture is this small (seen with MALLOC_PERTURB_).
    options = {"crf": "18", "preset": "veryfast", "threads": "1", "mbtree": "0"}
    data = io.BytesIO()
    with av.open(data, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=FRAMES_PER_SECOND, options=options)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    with writing(path):
        write_synced(path, data.getvalue())


def write_motion(
    output: str | Path, config: MotionConfig | None = None, run: Run | None = None, **options: Any
) -> Path:
    """Write a built-in data set: `OUTPUT/{train,test}/<class>/<index>.mp4` and its `prism.json`.

    Args:
        output: the folder to make; it appears when it is complete.
        config: kind, counts, length in frames, size in pixels and seed.
        run: how it runs.
        options: fields of `config` and of `prism.machine.run.Run`.

    Returns:
        The folder.

    Raises:
        OutputError: the folder exists, is no motion data set, cannot be written, or the disk is full.
    """
    config, run = split_options(MotionConfig, config, run, options)
    output = Path(os.path.abspath(as_path(output, OUTPUT)))
    with lock(output):
        discard_older(output)
        # Names of a data set of any kind and number of videos.
        labels = "|".join(label for labels, _ in KINDS.values() for label in labels)
        own = re.compile(rf"prism\.json|(train|test)/({labels})/\d{{4,}}\.mp4")
        names = (found.relative_to(output).as_posix() for found in output.rglob("*"))
        owned = [name for name in names if own.fullmatch(name)]
        check_output_folder(output, run.overwrite, "prism.json", "a data set of prism motion", owned)
        partial = partial_path(output)
        try:
            with writing(output):
                shutil.rmtree(partial, ignore_errors=True)
                _write_videos(partial, config, run.progress)
                replace_folder(partial, output)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return output


def _write_videos(folder: Path, config: MotionConfig, progress: bool) -> None:
    folder.mkdir()
    # Left and right change places in a mirror, and signs are no longer themselves; ingest reads this.
    write_synced(folder / "prism.json", (canonical_json({"flip": False, "made_by": MADE_BY}) + "\n").encode())
    labels, draw = KINDS[config.kind]
    counts = {"train": config.train_per_class, "test": config.test_per_class}
    total = len(labels) * sum(counts.values())
    with progress_bar("Drawing", total, "videos", enabled=progress) as advance:
        for split, count in counts.items():
            for label in labels:
                (folder / split / label).mkdir(parents=True)
                for index in range(count):
                    random = np.random.default_rng(derive_seed(config.seed, "motion", split, label, index))
                    frames = draw(label, config.num_frames, config.size, random)
                    write_video(folder / split / label / f"{index:04d}.mp4", frames)
                    advance()
                sync_folder(folder / split / label)
            sync_folder(folder / split)
    sync_folder(folder)
