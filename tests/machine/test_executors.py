"""Many machines: a real scheduler and two workers on loopback, one of which is killed in the midst of the work."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from settings import PAPER, command, contents, load_telemetry, threads, wait_for, without_seconds
from videos import write_classes, write_numbered

from prism.artifacts.results import Result
from prism.artifacts.telemetry import telemetry_path
from prism.condensation.condense import condense
from prism.condensation.recorder import checkpoint_path, shards_path
from prism.errors import AGAIN, DivergedError, EngineError
from prism.evaluation.evaluate import evaluate
from prism.ingestion.build import ingest
from prism.ingestion.options import IngestConfig
from prism.machine import executors
from prism.machine.executors import completed, dask_executor
from prism.machine.files import partial_path
from prism.selection.select import select

psutil = pytest.importorskip("psutil", reason="it comes with Dask")
distributed = pytest.importorskip("distributed", reason="Dask is missing: pip install 'prism-condense[dask]'")

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
# Dask's page of figures has an address of its own, and without one listens to the whole network, even turned off.
LOOPBACK = ("--host", HOST, "--dashboard-address", f"{HOST}:0")


def started(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """A process of Dask, which finds this PRISM and computes in one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    environment["DASK_DISTRIBUTED__WORKER__DAEMON"] = "false"
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]]
    with (folder / f"{arguments[0]}.log").open("a") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder, env=environment)


class Cluster:
    """A scheduler and two workers, each a process of its own without a guardian that would start it anew."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, []
        file = folder / "scheduler.json"
        options = (*LOOPBACK, "--scheduler-file", str(file))
        self.scheduler = started("dask_scheduler", "--port", "0", *options, folder=folder)
        wait_for(lambda: file.exists() and file.read_text())
        self.address = distributed.utils.json.loads(file.read_text())["address"]

    def fill(self) -> None:
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        options = (*LOOPBACK, "--nthreads", "1", "--no-nanny", "--memory-limit", "0")
        while len(self.workers) < 2:
            self.workers.append(started("dask_worker", self.address, *options, folder=self.folder))

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(one_cluster: Cluster) -> Cluster:
    """Both workers are there and wait."""
    one_cluster.fill()
    with distributed.Client(one_cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    return one_cluster


@contextmanager
def killing(victim: subprocess.Popen[str], happened: Callable[[], object]) -> Iterator[None]:
    """Another thread kills a process while the block runs, as soon as something has happened."""

    def kill() -> None:
        wait_for(happened)
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()

    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(kill)
        yield
        future.result()
    assert victim.returncode == -signal.SIGKILL


def test_a_cluster_gives_every_seed_the_scores_that_it_has_here(make_store, cluster, tmp_path):
    store, options = make_store(train=10), {"width": 4, "epochs": 1, "seeds": 3, "device": "cpu"}
    select(store, vpc=2, output=tmp_path / "set")
    local = evaluate(tmp_path / "set", store, **options)
    with dask_executor(cluster.address) as executor:
        result = evaluate(tmp_path / "set", store, executor=executor, output=tmp_path / "r.json", **options)
    assert without_seconds(result) == without_seconds(local)
    assert Result.load(tmp_path / "r.json") == result


TINY = PAPER | {"iterations": 30, "batch_real": 2, "width": 2, "device": "cpu", "checkpoint_seconds": 0.0}


def test_a_condensation_survives_a_killed_worker(make_store, cluster, tmp_path):
    store, output = make_store(classes=4), tmp_path / "set"
    # Long enough for both workers to be in the midst at once, whichever of them is ready first.
    options = TINY | {"iterations": 150}
    expected = condense(store, **options)
    files = [checkpoint_path(shards_path(output) / f"{label:05}.safetensors") for label in range(4)]
    in_the_midst = killing(cluster.workers[0], lambda: sum(file.exists() for file in files) >= 2)
    with dask_executor(cluster.address) as executor, in_the_midst:
        condense(store, output=output, executor=executor, **options)
    assert output.read_bytes() == expected.to_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"set", telemetry_path(output).name}
    steps = load_telemetry(telemetry_path(output))["step"]
    assert [step["iteration"] for step in steps] == 4 * list(range(options["iterations"]))


def test_an_ingest_survives_a_killed_worker(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["prism.ingestion.pool"], "SHARD_VIDEOS", 2)
    source, output = write_classes(tmp_path / "source"), tmp_path / "store"
    for k in range(4):
        write_numbered(source / "jump" / f"long{k}.mp4", 1500, options={"preset": "ultrafast", "g": "2000"})
    config = IngestConfig(num_frames=4, stride=2, size=32, val_fraction=0.25, test_fraction=0.25)
    expected = contents(ingest(source, tmp_path / "here", config, progress=False).path)

    def is_begun() -> bool:
        return any(np.fromfile(slots, np.uint8).any() for slots in partial_path(output).glob("*.u8"))

    with dask_executor(cluster.address) as executor, killing(cluster.workers[0], is_begun):
        store = ingest(source, output, config, executor=executor, progress=False)
    assert contents(store.path) == expected
    assert not partial_path(output).exists()


def diverge(item: int) -> int:
    raise DivergedError(f"item {item} is not finite.")


def end_the_process(item: int) -> int:
    os._exit(3)


def test_an_error_of_a_worker_is_that_of_the_run(cluster, make_store, tmp_path):
    with dask_executor(cluster.address) as executor:
        with pytest.raises(DivergedError, match="item 7 is not finite"):
            list(completed(executor, diverge, [7]))
        store = make_store()
        with pytest.raises(DivergedError, match=r"the training loss of seed \d is not finite"):
            evaluate(None, store, train=store, lr=1e30, epochs=3, seeds=1, width=2, executor=executor)


def test_a_part_that_a_worker_cannot_import_is_named(cluster, make_store, tmp_path, monkeypatch):
    program = "from prism.condensation.rules import Never\n\nclass Mine(Never):\n    pass\n"
    (tmp_path / "rules_of_mine.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    options = TINY | {"insertion": "rules_of_mine:Mine", "output": tmp_path / "set", "iterations": 1}
    with dask_executor(cluster.address) as executor, pytest.raises(EngineError, match="import 'rules_of_mine'"):
        condense(make_store(), executor=executor, **options)


def test_the_command_line_works_on_a_cluster(cluster, make_store, tmp_path, capsys):
    store, options = make_store(), ["--executor", cluster.address, "--device", "cpu"]
    small = ["--iterations", "2", "--batch-real", "2", "--width", "2"]
    assert command("condense", store.path, "-o", tmp_path / "set", *small, *options) == 0
    assert command("condense", store.path, "-o", tmp_path / "here", *small, "--device", "cpu") == 0
    assert (tmp_path / "set").read_bytes() == (tmp_path / "here").read_bytes()
    data = ["--data", store.path, "--epochs", "1", "--width", "2", "--seeds", "2"]
    assert command("evaluate", tmp_path / "set", *data, "-o", tmp_path / "r.json", *options) == 0
    assert command("evaluate", tmp_path / "set", *data, *options, "--workers", "2") == 2
    assert "and left out with an executor" in capsys.readouterr().err


def test_a_cluster_that_does_not_answer_is_refused_in_one_sentence():
    with pytest.raises(EngineError, match="no Dask scheduler answers at 'nonsense://here'"):
        dask_executor("nonsense://here").__enter__()


def test_an_executor_that_has_lost_its_processes_says_how_to_go_on():
    says = rf"lost what it was to compute \(BrokenProcessPool\)\. {AGAIN}"
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        for _ in ("as it dies", "afterwards"):
            with pytest.raises(EngineError, match=says):
                list(completed(executor, end_the_process, [0]))


def num_threads(_: int) -> int:
    return torch.get_num_threads()


def test_a_process_that_was_forked_waits_for_no_thread_that_did_not_come_along():
    with threads(2), ProcessPoolExecutor(1, mp_context=get_context("fork")) as executor:
        assert list(completed(executor, num_threads, [0])) == [(0, 1)]


def test_a_worker_of_other_versions_is_refused(monkeypatch):
    with ThreadPoolExecutor(1) as executor:
        found = completed(executor, diverge, [0])
        seen = iter([{"torch": "2.0"}, {"torch": "1.0"}, {"torch": "1.0"}])
        monkeypatch.setattr(executors, "versions", lambda: next(seen))
        says = r"other versions than this process: its torch is '1\.0', not '2\.0'"
        with pytest.raises(EngineError, match=says):
            list(found)


def listening(pid: int) -> set[str]:
    """The hosts on which a process listens."""
    connections = psutil.Process(pid).net_connections(kind="inet")
    return {found.laddr.ip for found in connections if found.status == psutil.CONN_LISTEN}


def test_a_client_listens_nowhere_and_the_cluster_only_on_loopback(cluster):
    before = listening(os.getpid())
    with dask_executor(cluster.address) as executor:
        assert sorted(completed(executor, str, range(4))) == [(item, str(item)) for item in range(4)]
        assert listening(os.getpid()) == before
        for process in (cluster.scheduler, *cluster.workers):
            assert listening(process.pid) == {HOST}
