"""Runs are killed at random moments and resumed: the outcome is that of a run which nothing disturbed."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launcher import Ended, Launcher
from outputs import lasting
from scale import either
from verbs import VERBS, forget, write_inputs

KILLS = either(2, 50)
"""Kills of each verb; reproduce, which runs the others, gets half as many."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


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
def test_a_run_killed_at_any_moment_and_repeated_ends_with_the_same_bytes(name, root, launcher, tmp_path):
    verb, random_ = VERBS[name], random.Random(f"{name} killed")
    plain = tmp_path / "plain"
    plain.mkdir()
    forget(root)
    undisturbed = verb.run(launcher, root, plain)
    assert undisturbed.code == 0, undisturbed.text
    expected, names = lasting(plain, verb.tells_time), every_name(plain)
    of_output = lasting(plain / verb.output, verb.rewritten)

    def run(folder: Path, *more: str, kill_after: float | None = None) -> Ended:
        ended = verb.run(launcher, root, folder, *more, kill_after=kill_after)
        # What has got its name before the kill is complete, and a run that is repeated says so.
        assert ended.code == 0 or ended.killed or "exists already" in ended.text, ended.text
        return ended

    kills = trial = 0
    while kills < (KILLS if name != "reproduce" else KILLS // 2):
        folder = tmp_path / f"trial{trial}"
        folder.mkdir()
        # What another trial left in the store would shorten this one.
        forget(root)
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
