"""Two runs, one output: the second is refused, and the lock of a dead one is none."""

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from test_disk import SCHEDULE, VERBS, prepared

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.telemetry import telemetry_path
from prism.errors import BusyError, OutputError
from prism.evaluation.evaluate import evaluate
from prism.machine.files import lock
from prism.selection.select import select


@contextmanager
def another_run(output: Path, does: str = "") -> Iterator[Popen[str]]:
    """A process that holds what a run of any verb on this output would hold, until it is killed."""
    script = (
        "import os, sys\nfrom prism.machine.files import lock\n"
        f"with lock(sys.argv[1]):\n    {does}\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, output]
    process = Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", VERBS)
def test_a_second_run_is_refused_and_the_lock_of_a_dead_run_does_not_block(name, inputs, tmp_path):
    kind, run, _ = VERBS[name]
    folder = prepared(tmp_path / "folder", name, inputs)
    output = folder / kind
    with another_run(output) as first:
        before = sorted(folder.rglob("*"))
        with pytest.raises(OutputError, match=rf"another run is writing '.*/{kind}'\. Wait for it"):
            run(inputs, output)
        assert sorted(folder.rglob("*")) == before
        first.send_signal(signal.SIGKILL)
        first.wait()
        run(inputs, output)
    assert output.exists()
    assert not list(folder.glob(".*"))


def test_a_set_and_a_result_are_saved_by_one_writer_at_a_time(inputs, tmp_path):
    made, path = CondensedSet.load(inputs / "set"), tmp_path / "output"
    for saved in (made, evaluate(made, inputs / "store", **SCHEDULE)):
        with another_run(path), pytest.raises(BusyError):
            saved.save(path)
        assert not path.exists()
        saved.save(path)
        path.unlink()


def test_a_process_that_a_dead_run_has_forked_keeps_nobody_off(tmp_path):
    # The parent waits for its end; its child says that it is there.
    with another_run(tmp_path / "output", does="os.fork() and sys.stdin.read()") as first:
        with pytest.raises(BusyError), lock(tmp_path / "output"):
            raise AssertionError("two runs hold one output")
        first.kill()
        first.wait()
        with lock(tmp_path / "output"):
            pass


def test_a_run_that_begins_while_another_ends_finds_room_for_its_lock(tmp_path):
    def begin_and_end(_: int) -> None:
        for _ in range(400):
            with suppress(BusyError), lock(tmp_path / "output"):
                pass

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(begin_and_end, range(2)))


def test_a_choice_of_clips_in_place_of_a_condensed_set_has_no_telemetry_of_its(inputs, tmp_path):
    output = tmp_path / "output"
    VERBS["condense"][1](inputs, output)
    assert telemetry_path(output).exists()
    select(inputs / "store", output=output, overwrite=True)
    assert not telemetry_path(output).exists()
