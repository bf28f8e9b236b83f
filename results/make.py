"""Results of small data sets: make the sets and scores that are missing, or the tables of the pages.

    python results/make.py DATA --store STORE [--sets 2] [--rows two four] [--vpc 5] [--model cnn-gru]
    python results/make.py --page

Sets are kept under runs/results, scores as results/DATA/ROW-SET.json, or DATA-vpc5 and DATA-cnn-gru. Set s has
the seeds s of videos and of random networks, and is scored by four networks of width 32 with the seeds 4s to
4s + 3, which all rows share.
"""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

from rows import EPOCHS, ROWS
from tables import PAGES, RESULTS, page

from prism.artifacts.results import Result

NETWORKS = 4
NARROW = 30, 16, 250
"""Networks, width and epochs of an earlier evaluation, to see whether both rank sets alike."""
EVALUATE = "evaluate --recipe small --width {} --epochs {}"


def run(command: str, *arguments: object) -> None:
    # Some rows have parts of objectives.py.
    paths = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
    program = [sys.executable, "-m", "prism", *shlex.split(command), *map(str, arguments)]
    subprocess.run(program, check=True, env=os.environ | {"PYTHONPATH": paths})


def make(given: argparse.Namespace) -> None:
    """Do what is missing, set by set, so that a stop leaves all rows as many sets."""
    data = f"{given.data}-vpc{given.vpc}" if given.vpc > 1 else given.data
    usual = NETWORKS, 64 if given.wide else 32, EPOCHS[given.vpc]
    networks, width, epochs = NARROW if given.narrow else usual
    epochs = given.epochs or epochs
    kinds = (data, given.model, "narrow" * given.narrow, given.epochs and f"{epochs}-epochs")
    scores = RESULTS / "-".join(filter(None, kinds))
    evaluate = f"{EVALUATE.format(width, '{}')} --split {given.split}"
    evaluate += f" --model {given.model}" if given.model else ""
    for number in range(given.sets):
        for row in given.rows:
            score = scores / f"{row}-{number}.json"
            if score.exists() and not Result.load(score).num_missing:
                print(f"{score} is there.")
                continue
            score.parent.mkdir(exist_ok=True)
            label = ["--label", ROWS[row][0], "--seeds", networks, "--seed", networks * number, "--no-progress"]
            label += ["--resume"] if score.exists() else []
            if (command := ROWS[row][1]).isdigit():
                run(evaluate.format(command), "--train", given.store, "--data", given.store, "-o", score, *label)
                continue
            made = made_set(given, Path("runs/results", data), row, number)
            run(evaluate.format(epochs), made, "--data", given.store, "-o", score, *label)


def made_set(given: argparse.Namespace, folder: Path, row: str, number: int) -> Path:
    """The set of a row and a number, made if it is missing, after the set that it starts from."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (path := folder / f"{row}-{number}").exists():
        command = ROWS[row][1]
        if command.startswith("condense"):
            command += f" --network-seed {number}" + " --batch-real 64" * given.wide
        # Given its embedder a coreset is determined: all sets would be one.
        command += f" --embedder-seed {number}" if command.startswith("select") and "--method" in command else ""
        if "HERDING" in command:
            command = command.replace("HERDING", str(made_set(given, folder, "herding", number)))
        command += f" --vpc {given.vpc} --seed {number} --no-progress" + " --width 64" * given.wide
        run(command, given.store, "-o", path)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("data", nargs="?", metavar="DATA")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--sets", type=int, default=2)
    few = ["random", "herding", "two-quarter"]
    parser.add_argument("--rows", nargs="+", choices=ROWS, metavar="ROW", default=few, help=", ".join(ROWS))
    parser.add_argument("--vpc", type=int, choices=EPOCHS, default=1)
    parser.add_argument("--epochs", type=int, default=0, help="of networks that train on a set")
    parser.add_argument("--model", default="", help="network that scores the sets; by default convnet3d")
    parser.add_argument("--wide", action="store_true", help="networks and real batches of the published sizes")
    parser.add_argument("--narrow", action="store_true", help="score by 30 networks of width 16, for 250 epochs")
    parser.add_argument("--split", default="test", help="clips to score on; rates are chosen on val")
    parser.add_argument("--page", action="store_true", help="write the tables of the pages again")
    given = parser.parse_args()
    if given.page:
        for path in PAGES:
            path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
    elif given.data and given.store and given.store.exists():
        make(given)
    else:
        parser.error("name the data and its --store, a folder that is there, or pass --page")
