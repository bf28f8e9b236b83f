"""Every single write, sync and rename of every verb fails once: a sentence, nothing half done, and it goes on.

The short form lets them fail by turns for one of two reasons, the long one lets each fail for both.
"""

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import write_store
from disk import FailingDisk
from outputs import lasting
from scale import either
from verbs import RECIPE
from videos import write_classes

from prism.condensation.condense import condense
from prism.errors import OutputError
from prism.evaluation.evaluate import evaluate
from prism.evaluation.retrieve import retrieve
from prism.exports.export import export
from prism.ingestion import pool, worker, working
from prism.ingestion.build import ingest
from prism.ingestion.drawings import MOTIONS
from prism.ingestion.motion import write_motion
from prism.ingestion.task import Outcome, Task
from prism.reports import page
from prism.reports.page import report
from prism.reproduction.run import reproduce
from prism.selection.select import select


class Here:
    """A decoding process that is none, so that the failing disk is the one it writes to."""

    class process:
        """What is killed when a pool is closed."""

        @staticmethod
        def kill() -> None: ...

    def ask(self, task: Task) -> Outcome:
        return worker.decode(task)

    def end(self) -> str:
        return ""


@dataclass(frozen=True)
class Verb:
    """A run that writes an output: how it is started and repeated, and what of it tells the time.

    Attributes:
        short: operations that fail for each reason in the short form; 0 for every other one.
    """

    output: str
    start: Callable[[Path, Path], object]
    repeat: Callable[[Path, Path], object]
    tells_time: tuple[str, ...] = ()
    short: int = 0


def condensed(**more: bool) -> Callable[[Path, Path], object]:
    return lambda inputs, output: condense(
        inputs / "store",
        output=output,
        width=4,
        batch_real=1,
        iterations=2,
        warmup=0,
        cooldown=0,
        checkpoint_seconds=0,
        device="cpu",
        **more,
    )


def selected(**more: bool) -> Callable[[Path, Path], object]:
    # The embeddings are kept in the store, so it has to be on the failing disk.
    return lambda _, output: select(
        output.parent / "store", output=output, method="herding", epochs=0, width=4, device="cpu", **more
    )


SCHEDULE: dict[str, Any] = {"width": 4, "epochs": 1, "seeds": 2, "device": "cpu"}


def evaluated(**more: bool) -> Callable[[Path, Path], object]:
    return lambda inputs, output: evaluate(inputs / "set", inputs / "store", output=output, **SCHEDULE, **more)


def retrieved(**more: bool) -> Callable[[Path, Path], object]:
    return lambda inputs, output: retrieve(inputs / "set", inputs / "large", output=output, **SCHEDULE, **more)


def ingested(**more: bool) -> Callable[[Path, Path], object]:
    return lambda inputs, output: ingest(
        inputs / "videos", output, num_frames=4, stride=1, size=16, workers=1, progress=False, **more
    )


def reproduced(inputs: Path, output: Path) -> object:
    return reproduce(
        "table6a", [inputs / "large"], output, scale="small", recipes=[inputs / "tiny.toml"], device="cpu"
    )


def drawn(**more: bool) -> Callable[[Path, Path], object]:
    return lambda _, output: write_motion(
        output, train_per_class=1, test_per_class=1, num_frames=8, size=32, progress=False, **more
    )


VERBS = {
    "motion": Verb("motion", drawn(), drawn()),
    "ingest": Verb("store", ingested(), ingested()),
    "condense": Verb("set", condensed(), condensed(resume=True)),
    "select": Verb("chosen", selected(), selected()),
    "evaluate": Verb("result.json", evaluated(), evaluated(overwrite=True)),
    "retrieve": Verb("recall.json", retrieved(), retrieved(overwrite=True)),
    "report": Verb(
        "page.html",
        lambda inputs, output: report([inputs / "result.json"], output),
        lambda inputs, output: report([inputs / "result.json"], output),
    ),
    "export": Verb(
        "out",
        lambda inputs, output: export(inputs / "set", output),
        lambda inputs, output: export(inputs / "set", output),
        short=5,
    ),
    "export, tensors": Verb(
        "out",
        lambda inputs, output: export(inputs / "set", output, to="tensors"),
        lambda inputs, output: export(inputs / "set", output, to="tensors"),
    ),
    "reproduce": Verb("tables", reproduced, reproduced, ("table6a-small-*.md", "table6a-small-*.html"), short=6),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_store(folder / "store", train=2, val=0, test=1)
    write_store(folder / "large", train=10, val=0, test=1)
    write_classes(folder / "videos", videos=2, num_frames=6)
    select(folder / "store", output=folder / "set")
    evaluated()(folder, folder / "result.json")
    (folder / "tiny.toml").write_text(RECIPE)
    return folder


@pytest.fixture(autouse=True)
def quick_and_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "SYNC_SECONDS", 0.0)
    for label in MOTIONS.keys() - {"left", "right"}:
        monkeypatch.delitem(MOTIONS, label)
    monkeypatch.setattr(pool, "Worker", Here)
    monkeypatch.setattr(page, "build_page", lambda loaded, sheets: "<p>A page that takes no time to draw.</p>")


def prepared(folder: Path, name: str, inputs: Path) -> Path:
    """A new folder on the failing disk, with the store that a selection writes its embeddings to."""
    folder.mkdir()
    if name == "select":
        shutil.copytree(inputs / "store", folder / "store")
    return folder


ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", VERBS)
def test_whichever_write_fails_nothing_is_half_done_and_the_run_goes_on(name, error, inputs, tmp_path):
    verb = VERBS[name]
    plain = prepared(tmp_path / "plain", name, inputs)
    with FailingDisk(plain) as counting:
        verb.start(inputs, plain / verb.output)
    expected, names = lasting(plain / verb.output, verb.tells_time), sorted(path.name for path in plain.iterdir())
    total = len(counting.operations)
    assert total >= 4
    turn, step = either((list(ERRORS).index(error), max(len(ERRORS), total // (verb.short or total))), (0, 1))
    for n in range(1 + turn, total + 1, step):
        folder = prepared(tmp_path / f"n{n}", name, inputs)
        output = folder / verb.output
        with FailingDisk(folder, n, ERRORS[error]) as disk:
            message = refusal(lambda: verb.start(inputs, output))  # noqa: B023
        what = disk.operations[n - 1]
        if message is None:
            # Embeddings that cannot be kept are made again.
            assert "cache" in what
        else:
            assert str(folder) in message, what
            assert "\n" not in message
            assert ("no space left" in message) == (error == "ENOSPC"), what
            # What has got its name before the failure is complete, and a run that is repeated says so.
            again = refusal(lambda: verb.repeat(inputs, output))  # noqa: B023
            assert again is None or "exists already" in again, what
        assert lasting(output, verb.tells_time) == expected, what
        assert sorted(path.name for path in folder.iterdir()) == names, what


def refusal(run: Callable[[], object]) -> str | None:
    """The sentence with which a run ended, or None if it went through."""
    try:
        run()
    except OutputError as error:
        return str(error)
    return None
