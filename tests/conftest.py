"""Fixtures that several test modules share: tiny clip stores, what verbs read, and crashes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from videos import write_classes
from xdist.scheduler import LoadScopeScheduling

from prism import testing
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.store import ClipSource, ClipStore
from prism.condensation.loop import Step
from prism.condensation.recorder import RunRecorder
from prism.selection.select import select

# The same examples on every machine: a test that fails for one developer fails for all.
settings.register_profile(
    "prism",
    deadline=None,
    max_examples=25,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("prism")

MakeStore = Callable[..., ClipStore]

UNDIVIDED = {"tests/reports/test_browser.py", "tests/test_extending.py"}
"""What the tests of each of these files share takes long to make: one process makes it."""


class Shares(LoadScopeScheduling):
    """Gives every process the next test, and all those of an undivided file at a time.

    (Groups by a mark, which pytest-xdist has, are no groups with pytest 9.2.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file in UNDIVIDED else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares:
    """Several processes share the tests so, whatever --dist says."""
    return Shares(config, log)


def write_store(
    path: Path,
    *,
    classes: int | list[str] = 2,
    train: int | list[int] = 4,
    val: int = 1,
    test: int | list[int] = 2,
    random_test_windows: int = 0,
    num_frames: int = 8,
    size: int | tuple[int, int] = 48,
    flip: bool = True,
    seed: int = 0,
    frames: np.ndarray | None = None,
) -> ClipStore:
    """Write a store of random pixels.

    Args:
        classes: number of classes, or their names, sorted.
        train, test: clips of each class in that split, or a list with the number for every class.
        random_test_windows: further clips of each test video, in the split test-random.
        size: height and width, or both at once.
        frames: (N, T, 3, H, W) uint8 in the order of the store, in place of random pixels.
    """
    height, width = (size, size) if isinstance(size, int) else size
    names = classes if isinstance(classes, list) else [f"class{label}" for label in range(classes)]
    wanted = {"train": train, "val": val, "test": test}
    per_class = {split: num if isinstance(num, list) else [num] * len(names) for split, num in wanted.items()}
    sources = [
        ClipSource(split, name, f"{name}/{split}{i}.mp4", 0, 1, num_frames)
        for split in per_class
        for name, count in zip(names, per_class[split], strict=True)
        for i in range(count)
    ]
    if random_test_windows:
        tests = [source for source in sources if source.split == "test"]
        sources += [replace(source, split="test-random") for source in tests for _ in range(random_test_windows)]
    if frames is None:
        shape = (len(sources), num_frames, 3, height, width)
        frames = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return testing.write_store(path, names, sources, frames, flip=flip)


@pytest.fixture
def make_store(tmp_path_factory: pytest.TempPathFactory) -> MakeStore:
    """`make_store(classes=3, train=[4, 2, 5], flip=False)`: a new tiny store (see `write_store`)."""

    def make(**options: object) -> ClipStore:
        return write_store(tmp_path_factory.mktemp("stores") / "store", **options)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """A store of two classes that all tests read and none changes."""
    return write_store(tmp_path_factory.mktemp("shared") / "store")


@pytest.fixture
def chosen(store: ClipStore) -> CondensedSet:
    """Two clips of each class of the shared store."""
    return select(store, vpc=2)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    """The store on which custom parts are checked."""
    return testing.tiny_store(tmp_path_factory.mktemp("tiny") / "store")


@pytest.fixture
def roomy(make_store: MakeStore) -> ClipStore:
    """A new store on which a network can be trained."""
    return make_store(train=10)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, videos and a set, of which every verb can make its output."""
    folder = tmp_path_factory.mktemp("inputs")
    write_store(folder / "store", train=2, val=0, test=1)
    write_classes(folder / "videos", videos=2, num_frames=6)
    select(folder / "store", output=folder / "set")
    return folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where a test writes its set."""
    return tmp_path / "set"


class Crash(BaseException):
    """What a test stops a run with."""


CrashingAt = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def crashing_at(monkeypatch: pytest.MonkeyPatch) -> CrashingAt:
    """`with crashing_at(4): condense(…)` lets a run die in iteration 4, after its step and before its record.

    Where classes are condensed one by one, the run is that of the first of them, or of `label`.
    """

    @contextmanager
    def crashing(iteration: int, label: int = 0) -> Iterator[None]:
        original = RunRecorder.record

        def record(recorder: RunRecorder, step: Step) -> dict:
            if (recorder.loop.iteration, recorder.loop.networks.classes.start) == (iteration, label):
                raise Crash
            return original(recorder, step)

        with monkeypatch.context() as patch:
            patch.setattr(RunRecorder, "record", record)
            with pytest.raises(Crash):
                yield

    return crashing
