"""Results of small data sets: make the sets and scores that are missing, or the tables of docs/results.md.

    python results/make.py COURT --store STORE [--sets 2] [--rows two four]
    python results/make.py --page

Sets are kept under runs/results, scores as results/COURT/ROW-SET.json. Set s has the seeds s of videos and of
random networks, and is scored by four networks of width 32 with the seeds 4s to 4s + 3, which all rows share.
"""

import argparse
import os
import shlex
import subprocess
import sys
from itertools import count, takewhile
from pathlib import Path

from prism.artifacts.estimates import Estimate, Sample, sample_of
from prism.artifacts.results import Result

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
    "published": ("PRISM as published", PUBLISHED),
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
    "quarter-inserting": (
        "the default, then more where gradients conflict",
        f"{KEYFRAMES.format(4, 2)} --insertion gradient",
    ),
    "small": ("every frame, of a quarter of the size", KEYFRAMES.format(4, 0)),
    "all": ("all clips, 20 epochs", ""),
}
"""Name of a row, and the command that makes its sets; without one networks are trained on all clips."""
CORESETS = ("random", "herding")


def run(command: str, *arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "prism", *shlex.split(command), *map(str, arguments)], check=True)


def make(court: str, store: Path, rows: list[str], num_sets: int) -> None:
    """Do what is missing, set by set, so that all rows have as many when it is stopped."""
    for number in range(num_sets):
        for row in rows:
            made, score = Path("runs/results", court, f"{row}-{number}"), RESULTS / court / f"{row}-{number}.json"
            if score.exists() and not Result.load(score).num_missing:
                continue
            made.parent.mkdir(parents=True, exist_ok=True)
            score.parent.mkdir(exist_ok=True)
            label = ["--label", ROWS[row][0], "--seeds", NETWORKS, "--seed", NETWORKS * number, "--no-progress"]
            label += ["--resume"] if score.exists() else []
            if not (command := ROWS[row][1]):
                run(EVALUATE.format("20 --train"), store, "--data", store, "-o", score, *label)
                continue
            if not made.exists():
                command += f" --network-seed {number}" if command.startswith("condense") else ""
                run(f"{command} --seed {number} --no-progress", store, "-o", made)
            run(EVALUATE.format(125), made, "--data", store, "-o", score, *label)


def results_of(court: str, row: str) -> list[Result]:
    """The results of the sets of a row, in their order."""
    files = (RESULTS / court / f"{row}-{number}.json" for number in count())
    return [Result.load(file) for file in takewhile(Path.exists, files)]


def lead(ours: list[Result], theirs: list[Result]) -> Estimate | None:
    """The lead over the same seeds, as many as both have."""
    num = min(len(ours), len(theirs))
    samples = [
        Sample(dict(enumerate(of.scores.values())), of.hits, of.clips)
        for of in (sample_of(some[:num]) for some in (ours, theirs) if num)
    ]
    return samples[0].lead(samples[1]) if samples else None


def certain(leads: list[Estimate]) -> list[bool]:
    """Whether each lead is above or below 0 at a level of 5 % for all of them together (Holm, 1979)."""
    order = sorted(range(len(leads)), key=lambda i: leads[i].p_value)
    held = takewhile(lambda rank: leads[order[rank]].p_value <= 0.05 / (len(leads) - rank), range(len(leads)))
    found = {order[rank] for rank in held}
    return [i in found for i in range(len(leads))]


def table(court: str) -> str:
    """Scores, sizes, and the leads over random clips and over the best coreset."""
    every = {row: found for row in ROWS if (found := results_of(court, row))}
    best = max((row for row in CORESETS if row in every), key=lambda row: sample_of(every[row]).mean)
    others = dict.fromkeys(("random", best)) if len(every[best]) > 1 else {}
    leads = {
        (row, other): found
        for row in every
        for other in others
        if row not in CORESETS and (found := lead(every[row], every[other]))
    }
    marks = dict(zip(leads, certain([*leads.values()]), strict=True))
    heads = [
        "one video of each class",
        "key-frames",
        "kB",
        "top-1",
        *(f"over {ROWS[other][0]}" for other in others),
    ]
    lines = [f"| {' | '.join(heads)} |", f"|---{'|---:' * (len(heads) - 1)}|"]
    for row, found in every.items():
        subject, top1 = found[0].subject, sample_of(found).in_percent
        cells = [f"{subject.num_keyframes / subject.num_videos:.1f}", f"{subject.float32_bytes / 1000:,.0f}", top1]
        for other in others:
            said = leads.get((row, other))
            cells.append(f"{said}{' *' * marks[row, other]}" if said else "–")
        lines.append(f"| {ROWS[row][0]} | {' | '.join(cells)} |")
    if level := lead(*(every.get(row, []) for row in ("two-quarter", "small"))):
        lines += ["", f"Default over every frame: {level}."]
    if leads:
        lines += ["", f"\\* at 5 % for all {len(leads)} leads (Holm)."]
    return "\n".join(lines) + "\n"


def as_others_count(court: str) -> str:
    """The main rows in the measures of other benchmarks; empty for courts of digits."""
    means = {row: 100 * sample_of(found).mean for row in ROWS if (found := results_of(court, row))}
    if "all" not in means or court.startswith("digits"):
        return ""
    lines = ["| | HLR | IOR | bits a class | clips a class |", "|---|---:|---:|---:|---:|"]
    for row in ("random", "published", "two-quarter"):
        if row in means:
            subject, classes = results_of(court, row)[0].subject, results_of(court, row)[0].data.num_classes
            scores = f"{means['all'] - means[row]:.1f} | {means[row] - means['random']:.1f}"
            bits = f"{8 * subject.num_bytes / classes:,.0f} | {subject.stored_clips / classes:g}"
            lines.append(f"| {ROWS[row][0]} | {scores} | {bits} |")
    return "\n" + "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with its tables made again, each between two comments that name its court."""
    for court in sorted(path.name for path in RESULTS.iterdir() if path.is_dir()):
        start, end = f"<!-- {court} -->\n", f"<!-- /{court} -->"
        if start in text:
            before, rest = text.split(start, 1)
            text = before + start + table(court) + as_others_count(court) + end + rest.split(end, 1)[1]
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
