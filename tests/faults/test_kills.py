"""Runs are killed at random moments and resumed: the outcome is that of a run which nothing disturbed."""

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from launcher import Ended, Launcher
from scale import either

from prism.config import IngestConfig, MotionConfig
from prism.ingest.build import ingest
from prism.motion import MOTIONS, write_motion
from prism.results import Result

KILLS = either(5, 50)
"""Kills of each verb; reproduce, which runs the others, gets half as many."""


@dataclass(frozen=True)
class Verb:
    """A run to disturb.

    Attributes:
        arguments: what stands before the output.
        repeat: what is added when it is repeated.
        output: its output's name.
        clocked: files of a folder that hold times, and so differ from run to run.
        grows: whether files appear in a folder one by one, each whole, rather than all at once.
    """

    arguments: tuple[str, ...]
    repeat: tuple[str, ...]
    output: str
    clocked: tuple[str, ...] = ()
    grows: bool = False


SMALL = ("--width", "4", "--model", "convnet3d", "--device", "cpu")
VERBS = {
    "ingest": Verb(
        ("{root}/motion", "--num-frames", "8", "--stride", "1", "--size", "48", "--workers", "2"), (), "store"
    ),
    "condense": Verb(
        ("{root}/store", *SMALL, "--iterations", "12", "--batch-real", "1", "--checkpoint-seconds", "0"),
        ("--resume",),
        "set.safetensors",
    ),
    "select": Verb(
        ("{root}/store", *SMALL, "--method", "herding", "--epochs", "1"), ("--overwrite",), "chosen.safetensors"
    ),
    "evaluate": Verb(
        (
            "{root}/chosen.safetensors",
            "--data",
            "{root}/store",
            "--width",
            "4",
            "--epochs",
            "2",
            "--device",
            "cpu",
        ),
        ("--resume",),
        "result.json",
    ),
    "reproduce": Verb(
        (
            "table6a",
            "--data",
            "{root}/store",
            "--scale",
            "small",
            "--recipe",
            "{root}/tiny.toml",
            "--device",
            "cpu",
        ),
        (),
        "tables",
        clocked=("*.telemetry.jsonl", "table6a-small.*"),
        grows=True,
    ),
}
TINY = """
[condense]
iterations = 6
bank_size = 1
width = 4
[evaluate]
width = 4
epochs = 1
seeds = 1
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two classes of the motion data set, their store and a selection."""
    from prism.select import select

    folder = tmp_path_factory.mktemp("faults")
    motion = MotionConfig(train_per_class=3, test_per_class=1, num_frames=10, size=48)
    write_motion(folder / "motion", motion, progress=False)
    for label in MOTIONS.keys() - {"left", "right"}:
        for split in ("train", "test"):
            shutil.rmtree(folder / "motion" / split / label)
    store = ingest(
        folder / "motion", folder / "store", IngestConfig(num_frames=8, stride=1, size=48), progress=False
    )
    select(store, output=folder / "chosen.safetensors")
    (folder / "tiny.toml").write_text(TINY)
    return folder


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


def seen(path: Path, clocked: Sequence[str] = ()) -> Any:
    """What of an output must not depend on kills: every byte, but for a result's clock and host."""
    if path.is_dir():
        files = (file for file in sorted(path.rglob("*")) if file.is_file())
        return {str(f.relative_to(path)): seen(f) for f in files if not any(map(f.match, clocked))}
    data = path.read_bytes()
    if b'"prism-result"' not in data:
        return data
    content = json.loads(Result.load(path).to_json())
    del content["provenance"], content["summary"]
    for run in content["runs"]:
        del run["seconds"]
    return content


def is_whole(found: Any, expected: Any, grows: bool = False) -> bool:
    """Whether what stands under a final name is complete; a result may still lack some of its seeds."""
    if isinstance(found, dict) and "runs" in found:
        seeds = [run["seed"] for run in found["runs"]]
        return bool(seeds) and found == expected | {"runs": [r for r in expected["runs"] if r["seed"] in seeds]}
    if grows:
        return all(is_whole(found[name], expected[name]) for name in found.keys() & expected.keys())
    return found == expected


def start(launcher: Launcher, name: str, root: Path, folder: Path, *more: str, **options: float) -> Ended:
    verb = VERBS[name]
    arguments = [argument.format(root=root) for argument in verb.arguments]
    return launcher.run(name, *arguments, "-o", folder / verb.output, *more, **options)


def every_name(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", VERBS)
def test_a_run_killed_at_any_moment_and_repeated_ends_with_the_same_bytes(name, root, launcher, tmp_path):
    verb, random_ = VERBS[name], random.Random(f"{name} killed")
    plain = tmp_path / "plain"
    plain.mkdir()
    undisturbed = start(launcher, name, root, plain)
    assert undisturbed.code == 0, undisturbed.text
    expected, names = seen(plain / verb.output, verb.clocked), every_name(plain)
    kills = trial = 0
    while kills < (KILLS if name != "reproduce" else KILLS // 2):
        folder = tmp_path / f"trial{trial}"
        folder.mkdir()
        # Embeddings that another trial left in the store would shorten this one.
        shutil.rmtree(root / "store" / "cache", ignore_errors=True)
        trial += 1
        more: tuple[str, ...] = ()
        wanted = random_.randint(1, 3)
        while wanted:
            ended = start(
                launcher, name, root, folder, *more, kill_after=random_.uniform(0, 1.05 * undisturbed.seconds)
            )
            assert ended.code == 0 or ended.killed, ended.text
            output = folder / verb.output
            if output.exists():
                assert is_whole(seen(output, verb.clocked), expected, verb.grows)
            if not ended.killed:
                break
            kills, wanted, more = kills + 1, wanted - 1, verb.repeat
        else:
            ended = start(launcher, name, root, folder, *more)
            assert ended.code == 0, ended.text
        assert seen(output, verb.clocked) == expected
        assert every_name(folder) == names
        assert not list((root / "store").rglob(".*"))
