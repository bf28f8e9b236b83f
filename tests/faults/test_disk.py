"""Every single write, sync and rename of every verb fails once: a sentence, nothing half done, and it goes on.

The short form lets about four fail for each of two reasons, the long one lets all fail for both.
"""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from disk import FailingDisk
from outputs import lasting
from settings import either

from prism.condensation.condense import condense
from prism.errors import OutputError
from prism.evaluation.evaluate import evaluate
from prism.exports.export import export
from prism.ingestion import build, pool
from prism.ingestion.build import ingest
from prism.ingestion.decode import Outcome
from prism.ingestion.pool import Task
from prism.selection.select import select


class Here:
    """A decoding process that is none, so that the failing disk is the one it writes to."""

    class process:
        """What is killed when a pool is closed."""

        @staticmethod
        def kill() -> None: ...

    def ask(self, task: Task) -> Outcome:
        return pool.decode(task)

    def end(self) -> str:
        return ""


SCHEDULE: dict[str, Any] = {"width": 4, "epochs": 1, "seeds": 2, "device": "cpu"}
CLIPS: dict[str, Any] = {"num_frames": 4, "stride": 1, "size": 16, "workers": 1, "progress": False}
TINY: dict[str, Any] = {"width": 4, "batch_real": 1, "iterations": 1, "checkpoint_seconds": 0, "device": "cpu"}
EMBED: dict[str, Any] = {"method": "herding", "epochs": 0, "width": 4, "device": "cpu"}

VERBS: dict[str, tuple[str, Callable[..., object], dict[str, bool]]] = {
    "ingest": ("store", lambda at, to, **how: ingest(at / "videos", to, **CLIPS, **how), {}),
    "condense": ("set", lambda at, to, **how: condense(at / "store", output=to, **TINY, **how), {"resume": True}),
    # The embeddings are kept in the store, so it has to be on the failing disk.
    "select": ("chosen", lambda _, to, **how: select(to.parent / "store", output=to, **EMBED, **how), {}),
    "evaluate": (
        "result.json",
        lambda at, to, **how: evaluate(at / "set", at / "store", output=to, **SCHEDULE, **how),
        {"overwrite": True},
    ),
    "export": ("out", lambda at, to, **how: export(at / "set", to, to="tensors", **how), {}),
}
"""The name of an output, what writes it, and what is added when it is repeated."""


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SYNC_SECONDS", 0.0)
    monkeypatch.setattr(pool, "Worker", Here)


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
    kind, start, more = VERBS[name]
    plain = prepared(tmp_path / "plain", name, inputs)
    with FailingDisk(plain) as counting:
        start(inputs, plain / kind)
    expected, names = lasting(plain / kind), sorted(path.name for path in plain.iterdir())
    total = len(counting.operations)
    assert total >= 4
    turn, step = either((list(ERRORS).index(error), max(len(ERRORS), total // 4)), (0, 1))
    for n in range(1 + turn, total + 1, step):
        folder = prepared(tmp_path / f"n{n}", name, inputs)
        output = folder / kind
        with FailingDisk(folder, n, ERRORS[error]) as disk:
            message = refusal(lambda: start(inputs, output))  # noqa: B023
        what = disk.operations[n - 1]
        if message is None:
            # Embeddings that cannot be kept are made again.
            assert "cache" in what
        else:
            assert str(folder) in message, what
            assert "\n" not in message
            assert ("no space left" in message) == (error == "ENOSPC"), what
            # What has got its name before the failure is complete, and a run that is repeated says so.
            again = refusal(lambda: start(inputs, output, **more))  # noqa: B023
            assert again is None or "exists already" in again, what
        assert lasting(output) == expected, what
        assert sorted(path.name for path in folder.iterdir()) == names, what


def refusal(run: Callable[[], object]) -> str | None:
    """The sentence with which a run ended, or None if it went through."""
    try:
        run()
    except OutputError as error:
        return str(error)
    return None
