"""Named randomness, atomic files, stop signals."""

import errno
import json
import os
import re
import resource
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from settings import printed, refusal_of

from prism.errors import ConfigError, EngineError, Interrupted, OutputError
from prism.machine import devices, progress
from prism.machine.devices import deterministic, explained, pick_device
from prism.machine.executors import computing, stop_signal, stoppable
from prism.machine.files import lock, write_atomically
from prism.machine.provenance import provenance, versions
from prism.machine.randomness import derive_seed, generator
from prism.machine.run import Run
from prism.machine.text_io import as_text, canonical_json


def test_a_new_consumer_of_randomness_changes_no_other_stream():
    def draws(streams):
        return {name: torch.rand(4, generator=generator(0, name, 3)) for name in streams}

    before = draws(["init", "batch", "network"])
    after = draws(["init", "a new one", "batch", "network"])
    assert all(torch.equal(before[name], after[name]) for name in before)


@given(st.integers(0, 2**40), st.text(), st.integers(0, 10**6))
def test_every_part_of_a_streams_name_gives_another_seed(seed, name, index):
    seeds = {
        derive_seed(seed, name, index),
        derive_seed(seed + 1, name, index),
        derive_seed(seed, name + "x", index),
        derive_seed(seed, name, index + 1),
        derive_seed(seed, name, str(index)),
        derive_seed(seed, name),
    }
    assert len(seeds) == 6
    assert all(0 <= value < 2**63 for value in seeds)


def test_seeds_are_the_same_in_every_version_of_prism():
    # A golden value: if it changes, no published run can be repeated.
    assert derive_seed(0, "network", 0) == 5430471536433508717


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_half_of_the_new_one(tmp_path, monkeypatch, step):
    write_atomically(tmp_path / "a", b"old")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    assert "no space left to write" in refusal_of(OutputError, write_atomically, tmp_path / "a", b"new")
    monkeypatch.undo()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may write everywhere")
def test_an_output_in_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(OutputError, match="cannot be written: Permission denied"), lock(tmp_path / "a"):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_request_and_the_second_stops_at_once(number):
    before = signal.getsignal(number)
    with stop_signal() as stopped:
        os.kill(os.getpid(), number)
        assert stopped.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_a_block_that_keeps_what_is_done_ends_at_once_with_its_sentence():
    with pytest.raises(Interrupted, match="some are done"), stoppable("some are done"):
        os.kill(os.getpid(), signal.SIGINT)


def test_an_executor_may_have_a_device_that_this_machine_has_not():
    with ThreadPoolExecutor() as threads, computing(Run(device="cuda:99", executor=threads), 2) as found:
        assert found is threads


@pytest.fixture
def clock(monkeypatch) -> None:
    """Half a minute passes before every call."""
    clock = iter(range(0, 600, 30))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))


@pytest.mark.usefixtures("clock")
def test_a_stage_writes_a_line_a_minute_with_the_time_left_where_there_is_no_terminal(capsys):
    with progress.progress_bar("Evaluating", 1000, "epochs", done=100) as advance:
        for _ in range(4):
            advance(100, top=1)
    assert capsys.readouterr().err.splitlines() == [
        "Evaluating: 300 of 1,000 epochs, 4 min left, 3.33 epochs/s, top 1",
        "Evaluating: 500 of 1,000 epochs, 2 min left, 3.33 epochs/s, top 1",
    ]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("width", "shown"), [(80, ", 3.33 epochs/s, top-1 20.0%"), (55, "")])
def test_a_terminal_has_one_line_whose_end_is_left_out_and_notes_stand_above_it(capsys, monkeypatch, width, shown):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    with progress.progress_bar("Evaluating", 1000, "epochs", done=100) as advance:
        progress.note("careful")
        advance(100, **{"top-1": "20.0%", "of the longest name": 3})
    first, note, *states, last = capsys.readouterr().err.split("\r\x1b[K")[1:]
    assert (first, note) == ("Evaluating: 100 of 1,000 epochs", "careful\n")
    assert states == [f"Evaluating: 200 of 1,000 epochs, 4 min left{shown}"]
    assert last.startswith("Evaluating: 200 of 1,000 epochs, ")
    assert last.endswith("\n")


def test_python_shows_progress_where_somebody_sees_it(monkeypatch, capsys):
    assert not Run().progress
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert Run().progress
    for stand_in in (None, SimpleNamespace(write=len, flush=list)):
        monkeypatch.setattr(sys, "stderr", stand_in)
        assert (Run().progress, progress.note("careful"), capsys.readouterr().out) == (False, None, "")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_gpu_is_refused_and_auto_does_without():
    assert pick_device("auto") == pick_device(torch.device("cpu")) == torch.device("cpu")
    assert "--device cpu" in refusal_of(ConfigError, pick_device, "cuda")


def test_convolutions_on_a_gpu_have_no_race_while_prism_computes_and_the_users_choice_is_back_then(monkeypatch):
    cudnn = torch.backends.cudnn
    for benchmark in (True, False):
        monkeypatch.setattr(cudnn, "benchmark", benchmark)
        with suppress(ConfigError), deterministic(torch.device("cuda")):
            assert (cudnn.deterministic, cudnn.benchmark) == (True, False)
            raise ConfigError("stopped")
        assert (cudnn.deterministic, cudnn.benchmark) == (False, benchmark)


def test_provenance_names_versions_machine_and_date_and_is_plain_json():
    facts = provenance()
    assert versions().items() <= facts.items()
    assert {"host", "processor", "threads", "date", "command", "commit"} <= facts.keys()
    assert json.loads(canonical_json(facts)) == facts


def test_provenance_names_the_gpu_of_the_run(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: f"card of {device}")
    cards = {device: provenance(device)["gpu"] for device in ("cpu", "cuda:1", "auto")}
    assert cards == {"cpu": None, "cuda:1": "card of cuda:1", "auto": "card of None"}


@pytest.mark.parametrize(
    ("program", "name"), [("bin/prism", "prism"), ("prism/__main__.py", "prism"), ("my/study.py", "study.py")]
)
def test_the_recorded_command_is_that_of_the_users_own_script_where_it_runs_one(monkeypatch, program, name):
    monkeypatch.setattr(sys, "argv", [program, "--vpc", "5"])
    assert provenance()["command"] == f"{name} --vpc 5"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what is freed goes back otherwise elsewhere")
@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("", ()),
        ("keep_freed_memory()", ("by a thread",)),
        ("keep_freed_memory(in_one_pool=True)", ("by a thread", "for the others")),
    ],
    ids=["not kept", "kept by each thread", "kept for all"],
)
def test_memory_that_a_program_keeps_is_not_asked_of_the_system_again(call, kept):
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from resource import RUSAGE_SELF, getrusage\n"
        "from prism.machine.devices import keep_freed_memory\n"
        f"{call}\n"
        "work = lambda: [bytearray(2**24), bytearray(2**26)] and getrusage(RUSAGE_SELF).ru_minflt\n"
        "work(); print(-work() + work(), -work() + ThreadPoolExecutor(1).submit(work).result())"
    )
    said = printed(code).split()
    pages = (2**24 + 2**26) // resource.getpagesize()
    found = dict(zip(("by a thread", "for the others"), map(int, said), strict=True))
    assert {name for name, faults in found.items() if faults < pages / 100} == set(kept)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what is freed goes back otherwise elsewhere")
def test_memory_that_one_verb_has_freed_is_free_when_the_next_one_asks():
    code = (
        "from pathlib import Path\n"
        "from prism.machine.devices import give_back_freed_memory, keep_freed_memory\n"
        "keep_freed_memory()\n"
        "import torch\n"
        "pages = lambda: int(Path('/proc/self/statm').read_text().split()[1])\n"
        "before, work, small = pages(), [torch.ones(2**20) for _ in range(32)], torch.ones(10)\n"
        "del work; kept = pages(); give_back_freed_memory()\n"
        "print(kept - before, pages() - before)"
    )
    kept, left = (int(pages) * resource.getpagesize() for pages in printed(code).split())
    assert kept > 2**27 - 2**23
    assert left < 2**25


def test_what_is_no_utf_8_is_spelled_out():
    names = ["plain ü", "f\udcff", "half \ud800"]
    assert list(map(as_text, names)) == ["plain ü", r"f\udcff", r"half \ud800"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="containers are of Linux")
@pytest.mark.parametrize(("limit", "left"), [("100\n", 60), ("max\n", None), (f"{2**63 - 4096}\n", None)])
@pytest.mark.parametrize("names", [("max", "current"), ("limit_in_bytes", "usage_in_bytes")])
def test_free_memory_is_what_a_container_may_still_take(tmp_path, monkeypatch, names, limit, left):
    monkeypatch.setattr(devices, "CGROUPS", tmp_path)
    folder = tmp_path if "max" in names else tmp_path / "memory"
    folder.mkdir(exist_ok=True)
    for name, text in zip((*names, "stat"), (limit, "90\n", "inactive_file 30\nactive_file 20\n"), strict=True):
        (folder / f"memory.{name}").write_text(text)
    found = devices.free_bytes(torch.device("cpu"))
    assert found == left if left else found > 2**20


LOST = "CUDA error: unspecified launch failure"


FAILURES = [
    ("CUDA out of memory. Tried", ConfigError, "out of memory (CUDA out of memory). Pass a smaller --vpc."),
    ("GET was unable to find an engine to execute this computation", ConfigError, "Pass a smaller --vpc."),
    ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", ConfigError, "Pass a smaller --vpc."),
    ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", ConfigError, "Pass a smaller --vpc."),
    ("CUDA error: out of memory", ConfigError, "Pass a smaller --vpc."),
    ("CUDA driver error: out of memory", ConfigError, "Pass a smaller --vpc."),
    ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling", ConfigError, "Pass a smaller --vpc."),
    (f"{LOST}\nCUDA kernel errors might be", EngineError, f"the GPU failed ({LOST}). Go on."),
    ("shape mismatch", RuntimeError, "shape mismatch"),
]


@pytest.mark.parametrize(("problem", "kind", "said"), FAILURES)
def test_a_gpu_that_is_too_small_or_lost_ends_in_one_sentence(problem, kind, said):
    raised = torch.OutOfMemoryError(problem) if "Tried" in problem else RuntimeError(problem)
    with pytest.raises(kind, match=re.escape(said)), explained("--vpc", "Go on."):
        raise raised
