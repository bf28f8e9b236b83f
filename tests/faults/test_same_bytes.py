"""One command, one machine, the same bytes: whatever the threads, the workers and the terminal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launcher import Launcher
from outputs import lasting
from verbs import VERBS, forget, write_inputs

from prism.machine.provenance import VOLATILE, provenance, versions


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    with Launcher() as launcher:
        yield launcher


BAR = "\x1b[?25l"
"""What a progress bar begins with: it hides the cursor."""


def run(name: str, root: Path, folder: Path, launcher: Launcher, *, plain: bool) -> str:
    """Run a verb in one thread, without a bar, or in two with one; return what it printed."""
    verb, more = VERBS[name], []
    if verb.has_workers:
        more += ["--workers", 1 if plain else 2]
    if verb.has_bar and plain:
        more += ["--no-progress"]
    forget(root)
    ended = verb.run(launcher, root, folder, *more, threads=1 if plain else 2, terminal=not plain)
    assert ended.code == 0, ended.text
    return ended.text


def left(name: str, root: Path, folder: Path) -> dict[str, Any]:
    """What a run has left in its folder, and in the store."""
    cache = root / "store" / "cache"
    return {"output": lasting(folder, VERBS[name].tells_time), "cache": cache.exists() and lasting(cache)}


@pytest.mark.parametrize("name", VERBS)
def test_one_command_gives_the_same_bytes_in_one_thread_and_two_with_a_bar_and_without(
    name, root, launcher, tmp_path
):
    plain, other = tmp_path / "plain", tmp_path / "other"
    for folder in (plain, other):
        folder.mkdir()
    assert BAR not in run(name, root, plain, launcher, plain=True)
    expected = left(name, root, plain)
    assert (BAR in run(name, root, other, launcher, plain=False)) == VERBS[name].has_bar
    assert left(name, root, other) == expected
    assert expected["output"]


def test_what_the_provenance_says_beside_versions_is_volatile():
    assert provenance().keys() - versions().keys() <= VOLATILE
    assert not versions().keys() & VOLATILE
