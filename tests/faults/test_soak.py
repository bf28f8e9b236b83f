"""A long run on a tiny problem: what it holds and what it leaves on disk does not grow with its iterations."""

import os
from pathlib import Path

import pytest
import torch
from conftest import write_store
from scale import either

from prism.artifacts.store import ClipStore
from prism.artifacts.telemetry import Telemetry, telemetry_path
from prism.condensation.checkpoint import checkpoint_path
from prism.condensation.journal import Journal
from prism.condensation.loop import Condensation
from prism.condensation.options import CondenseConfig

ITERATIONS = either(150, 20_000)
CHECK = ITERATIONS // 10


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ClipStore:
    return write_store(tmp_path_factory.mktemp("soak") / "store", train=2, val=0, test=1, num_frames=4)


def resident_bytes() -> int:
    """Memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_handles_and_checkpoints_do_not_grow_with_the_iterations(tiny, tmp_path):
    config = CondenseConfig(
        iterations=ITERATIONS,
        width=1,
        batch_real=1,
        lr=1e-3,
    )
    run, output = Condensation(tiny, config, torch.device("cpu")), tmp_path / "set"
    source = {"config": {}}
    held: list[tuple[int, int, int]] = []
    with Journal(run, output, source, checkpoint_seconds=60, resume=False, overwrite=False) as journal:
        while run.iteration < ITERATIONS:
            journal.record(run.step())
            if run.iteration % CHECK == 0:
                journal.save_checkpoint()
                size = checkpoint_path(output).stat().st_size
                held.append((resident_bytes(), len(os.listdir("/proc/self/fd")), size))
        journal.finish(run.videos.condensed(tiny, config, source))
    memory, handles, sizes = zip(*held[1:], strict=True)
    assert max(memory[-3:]) < memory[0] + 16 * 2**20
    assert max(handles) == min(handles)
    # Numbers in the checkpoint's text get longer; tensors do not.
    assert max(sizes) - min(sizes) < 256
    assert len(Telemetry.load(telemetry_path(output)).of_kind("step")) == ITERATIONS
