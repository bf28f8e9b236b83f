"""Results of small data sets: make the sets and scores that are missing, or the tables of docs/results.md.

    python results/make.py COURT --store STORE [--sets 2] [--rows two four]
    python results/make.py --page

Sets are kept under runs/results, scores as results/COURT/ROW-SET.json. Set s has the seeds s of videos and of
random networks, and is scored by four networks of width 32 with the seeds 4s to 4s + 3, which all rows share.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from itertools import count
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

RESULTS = Path(os.path.relpath(Path(__file__).parent))
PAGE = RESULTS.parent / "docs" / "results.md"
NETWORKS = 4
EVALUATE = "evaluate --recipe small --width 32 --epochs {}"
KEYFRAMES = "condense --recipe small --keyframe-scale {} --initial-keyframes {}"
PUBLISHED = f"{KEYFRAMES.format(1, 2)} --init noise --metric parameter --insertion gradient"
ROWS = {
    "random": ("random clips", "select --recipe small"),
    "herding": ("herding", "select --recipe small --method herding"),
    "dm": ("DM", "condense --recipe small --method dm"),
    "published": ("PRISM as published, rate transferred", PUBLISHED),
    "published-clip": ("the same in the metric of the clip", PUBLISHED.replace("parameter", "clip")),
    "two-noise": ("two key-frames from noise", f"{KEYFRAMES.format(1, 2)} --init noise"),
    "two-parameter": ("two key-frames, metric of the key-frames", f"{KEYFRAMES.format(1, 2)} --metric parameter"),
    "two": ("two key-frames", KEYFRAMES.format(1, 2)),
    "two-half": ("two key-frames of half the size", KEYFRAMES.format(2, 2)),
    "two-quarter": ("**two key-frames of a quarter of the size** (default)", KEYFRAMES.format(4, 2)),
    "three": ("three key-frames", KEYFRAMES.format(1, 3)),
    "four": ("four key-frames", KEYFRAMES.format(1, 4)),
    "four-half": ("four key-frames of half the size", KEYFRAMES.format(2, 4)),
    "two-inserting": ("two, then more where gradients conflict", f"{KEYFRAMES.format(1, 2)} --insertion gradient"),
    "small": ("every frame, of a quarter of the size", KEYFRAMES.format(4, 0)),
    "all": ("all clips, 20 epochs", ""),
}
"""Name of a row, and the command that makes its sets; without one networks are trained on all clips."""


def run(command: str, *arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "prism", *shlex.split(command), *map(str, arguments)], check=True)


def make(court: str, store: Path, rows: list[str], num_sets: int) -> None:
    """Do what is missing, set by set, so that all rows have as many when it is stopped."""
    for number in range(num_sets):
        for row in rows:
            made, score = Path("runs/results", court, f"{row}-{number}"), RESULTS / court / f"{row}-{number}.json"
            if score.exists():
                continue
            made.parent.mkdir(parents=True, exist_ok=True)
            score.parent.mkdir(exist_ok=True)
            label = ["--label", ROWS[row][0], "--seeds", NETWORKS, "--seed", NETWORKS * number, "--no-progress"]
            if not (command := ROWS[row][1]):
                run(EVALUATE.format("20 --train"), store, "--data", store, "-o", score, *label)
                continue
            if not made.exists():
                command += f" --network-seed {number}" if command.startswith("condense") else ""
                run(f"{command} --seed {number} --no-progress", store, "-o", made)
            run(EVALUATE.format(125), made, "--data", store, "-o", score, *label)


def scores(court: str, row: str) -> list[list[float]]:
    """Top-1 in per cent of each network of each set."""
    found = []
    for number in count():
        if not (file := RESULTS / court / f"{row}-{number}.json").exists():
            return found
        found.append([100 * one["scores"]["top1"] for one in json.loads(file.read_text())["runs"]])


def error(values: list[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else float("nan")


def table(court: str) -> str:
    """Rows by their mean, with the standard error over all networks and the lead over random clips.

    The lead is paired by networks, which the rows share.
    """
    lines = [
        "| one video of each class | key-frames | kB | top-1 | over random clips |",
        "|---|---:|---:|---:|---:|",
    ]
    floor = scores(court, "random")
    for row, (name, _) in ROWS.items():
        if not (found := scores(court, row)):
            continue
        subject = json.loads((RESULTS / court / f"{row}-0.json").read_text())["subject"]
        flat = [value for one in found for value in one]
        pairs = [a - b for one, other in zip(found, floor, strict=False) for a, b in zip(one, other, strict=True)]
        lead = "–" if row == "random" else f"{fmean(pairs):+.1f} ± {error(pairs):.1f}"
        keyframes, size = subject["num_keyframes"] / subject["num_videos"], subject["float32_bytes"] / 1000
        top1 = f"{fmean(flat):.1f} ± {error(flat):.1f} ({len(found)} × {len(found[0])})"
        lines.append(f"| {name} | {keyframes:.1f} | {size:,.0f} | {top1} | {lead} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with its tables made again, each between two comments that name its court."""
    for court in sorted(path.name for path in RESULTS.iterdir() if path.is_dir()):
        start, end = f"<!-- {court} -->\n", f"<!-- /{court} -->"
        if start in text:
            before, rest = text.split(start, 1)
            text = before + start + table(court) + end + rest.split(end, 1)[1]
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("court", nargs="?")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--sets", type=int, default=2)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--page", action="store_true", help="write the tables of docs/results.md again")
    given = parser.parse_args()
    if given.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    elif given.court and given.store:
        make(given.court, given.store, given.rows, given.sets)
    else:
        parser.error("name a court and its --store, or pass --page")
