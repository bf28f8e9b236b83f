"""Runs are killed at random moments and resumed: the outcome is that of a run which nothing disturbed."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import write_store
from launcher import Ended, run_prism
from outputs import lasting
from settings import either
from videos import write_classes

from prism.selection.select import select

KILLS = either(2, 50)
"""Kills of each verb; reproduce, which runs the others, gets half as many."""


@dataclass(frozen=True)
class Verb:
    """A command on a problem of seconds.

    Attributes:
        words: the command but for its output; `{root}` is the folder of its inputs.
        output: its output's name.
        repeat: what is added when it is repeated after a kill.
        rewritten: files of a folder that are written anew whenever another file has been added to it.
        tells_time: files of the folder, or beside the output, whose text tells times, which differ.
    """

    words: str
    output: str
    repeat: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    tells_time: tuple[str, ...] = ()

    def run(self, root: Path, folder: Path, *more: object, kill_after: float | None = None) -> Ended:
        words = self.words.format(root=root).split()
        return run_prism(*words, "-o", folder / self.output, *more, kill_after=kill_after)


CONDENSE = (
    "condense {root}/store --device cpu --width 2 --iterations 10 --batch-real 2 --recipe paper --epsilon 0.03 "
    "--static-iterations 2 --checkpoint-seconds 0"
)
TRAIN = "--data {root}/store --device cpu --width 2 --epochs 3 --batch-size 2 --seeds 2"
TABLES = "reproduce table6a --data {root}/store --scale small --recipe {root}/tiny.toml --device cpu"
TIMES = "table6a-small-*.md", "table6a-small-*.html"
RECIPE = "condense = {iterations = 6, lr = 1.0, width = 2}\nevaluate = {width = 2, epochs = 1, seeds = 1}\n"

VERBS = {
    "ingest": Verb("ingest {root}/videos --num-frames 8 --stride 1 --size 48", "store"),
    "condense": Verb(CONDENSE, "set.safetensors", ("--resume",)),
    "static-dynamic": Verb(f"{CONDENSE} --method static-dynamic", "set.safetensors", ("--resume",)),
    "evaluate": Verb("evaluate {root}/chosen.safetensors " + TRAIN, "result.json", ("--resume",)),
    "export": Verb("export {root}/chosen.safetensors", "out", ("--overwrite",)),
    "reproduce": Verb(TABLES, "tables", rewritten=("table6a-small-*",), tells_time=TIMES),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some videos, a store of random pixels, and a selection of it."""
    root = tmp_path_factory.mktemp("inputs")
    assert run_prism("--version").code == 0, "the process that forks the runs does not start"
    write_classes(root / "videos", videos=5, num_frames=10)
    select(write_store(root / "store", train=10, val=0, test=1), output=root / "chosen.safetensors", vpc=2)
    (root / "tiny.toml").write_text(RECIPE)
    return root


def is_whole(found: Any, expected: Any, grows: bool = False) -> bool:
    """Whether what stands under a final name is complete; a result may still lack some networks."""
    if isinstance(found, dict) and "runs" in found:
        # The summary is that of the runs, and no run's business here.
        seeds, summary = [run["seed"] for run in found["runs"]], {"summary": found["summary"]}
        runs = [run for run in expected["runs"] if run["seed"] in seeds]
        return bool(seeds) and found == expected | summary | {"runs": runs}
    if grows:
        return all(is_whole(found[name], expected[name]) for name in found.keys() & expected.keys())
    if isinstance(expected, list):
        # Telemetry in the folder of a table: a run appends to it, and has just begun it where it has no bytes yet.
        return list(found) == expected[: len(found)]
    return found == expected


def every_name(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", VERBS)
def test_a_run_killed_at_any_moment_and_repeated_ends_with_the_same_bytes(name, root, tmp_path):
    verb, random_ = VERBS[name], random.Random(f"{name} killed")

    def run(folder: Path, *more: str, kill_after: float | None = None) -> Ended:
        ended = verb.run(root, folder, *more, kill_after=kill_after)
        # What has got its name before the kill is complete, and a run that is repeated says so.
        assert ended.code == 0 or ended.killed or "exists already" in ended.text, ended.text
        return ended

    def fresh(folder: Path) -> Path:
        # What another trial left in the store would shorten this one.
        shutil.rmtree(root / "store" / "cache", ignore_errors=True)
        folder.mkdir()
        return folder

    plain = fresh(tmp_path / "plain")
    undisturbed = run(plain)
    expected, names = lasting(plain, verb.tells_time), every_name(plain)
    of_output = lasting(plain / verb.output, verb.rewritten)
    kills = trial = 0
    while kills < (KILLS if name != "reproduce" else KILLS // 2):
        folder = fresh(tmp_path / f"trial{trial}")
        trial += 1
        more: tuple[str, ...] = ()
        wanted = random_.randint(1, 3)
        while wanted:
            ended = run(folder, *more, kill_after=random_.uniform(0, 1.05 * undisturbed.seconds))
            output = folder / verb.output
            if output.exists():
                assert is_whole(lasting(output, verb.rewritten), of_output, bool(verb.rewritten))
            if not ended.killed:
                break
            kills, wanted, more = kills + 1, wanted - 1, verb.repeat
        else:
            run(folder, *more)
        assert lasting(folder, verb.tells_time) == expected
        assert every_name(folder) == names
        assert not list((root / "store").rglob(".*"))
