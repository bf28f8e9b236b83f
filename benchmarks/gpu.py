"""Claim: on a GPU an iteration is five times as fast as the peers' loop's, and near the arithmetic limit.

The sizes are the paper's, 16 frames of 112×112 pixels. The limit is the rate of a matrix product in the number
format of the convolutions. The tests that need a GPU run first; with --videos FOLDER, three rows of table 1 last.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import prism
from benchmarks.data import paper_config, random_store
from benchmarks.measure import ON_GPU, Sizes, Spread, ratios, read_arguments, report, seconds
from benchmarks.peers import FirstRun, PeersLoop
from prism.condensation.loop import Condensation
from prism.condensation.prepare import Setup
from prism.condensation.random_networks import BLOCK, PRECISIONS
from prism.machine.run import Run
from prism.networks.build import build
from prism.networks.network import Network

CUDA = torch.device("cuda")
MATRIX = 8192


def measure(sizes: Sizes, device: torch.device = CUDA, matrix: int = MATRIX) -> dict[str, Any]:
    """Seconds of the peers' iteration and of ours, their ratio, and our share of the matrix rate."""
    with tempfile.TemporaryDirectory() as folder, with_tf32():
        store = random_store(Path(folder) / "store", sizes)
        turns = 1 + sizes.repeats
        fresh = {name: FirstRun(store, paper_config(sizes, precision=name), device, turns) for name in PRECISIONS}
        # A step only reads class means, and those over one clip are as large and made sooner.
        kept = paper_config(sizes, batch_real=1, iterations=BLOCK * turns)
        setup = Setup(store, kept)
        setup.precompute(Run(device=device.type))
        works: dict[str, Callable[[], object]] = {"peers": PeersLoop(store, sizes, device=device).step}
        works |= {name: run.work for name, run in fresh.items()}
        works |= {f"matrix in {name}": matrix_product(matrix, kind, device) for name, kind in PRECISIONS.items()}
        works |= {"kept": block_of(setup.start(device))}
        found = seconds({name: until_done(work, device) for name, work in works.items()}, sizes)
    macs = iteration_macs(sizes, sizes.batch_real) / 1e9
    rows: dict[str, Any] = {"GPU: peers' iteration, s": Spread.of(found["peers"])}
    for name, run in fresh.items():
        ours = [time / run.num for time in found[name]]
        rate = Spread.of([matrix**3 / time / 1e9 for time in found[f"matrix in {name}"]])
        rows |= {
            f"GPU: our iteration in {name}, s": Spread.of(ours),
            f"GPU: ratio in {name}": ratios(found["peers"], ours),
            f"GPU: matrix rate in {name}, GMAC/s": rate,
            f"GPU: utilisation in {name}": Spread.of([macs / time / rate.median for time in ours]),
        }
    return rows | {"GPU: iteration with kept class means, s": Spread.of([time / BLOCK for time in found["kept"]])}


def embedding_macs(network: Network) -> int:
    """Multiply-adds that embedding one clip takes, zeros of the padding included, of a network on `meta`."""
    with FlopCounterMode(display=False) as counter:
        network.embed(torch.empty(1, 3, network.num_frames, *network.size, device="meta"))
    return counter.get_total_flops() // 2


def iteration_macs(sizes: Sizes, batch_real: int) -> int:
    """Multiply-adds of an iteration: forward for each real clip, forward and backward for each synthetic one.

    The gradient of a convolution's input takes as many as its output, and frozen weights need none.
    """
    shape = {"num_classes": sizes.classes, "num_frames": sizes.num_frames, "size": sizes.size}
    macs = embedding_macs(build("convnet3d", "meta", **shape, width=sizes.width))
    return sizes.classes * (batch_real + 2 * sizes.vpc) * macs


def block_of(run: Condensation) -> Callable[[], None]:
    """Work of as many iterations as a block has networks."""

    def work() -> None:
        for _ in range(BLOCK):
            run.step()

    return work


def matrix_product(side: int, kind: torch.dtype, device: torch.device) -> Callable[[], object]:
    """The product of two square matrices on a device."""
    a, b = (torch.randn(side, side).to(device, kind) for _ in range(2))
    return lambda: torch.mm(a, b)


def until_done(work: Callable[[], object], device: torch.device) -> Callable[[], None]:
    """Work that ends when the GPU is done with it."""

    def timed() -> None:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return timed


@contextmanager
def with_tf32() -> Iterator[None]:
    """Let matrix products round as PyTorch's convolutions do."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def first_table(videos: str, folder: Path) -> None:
    """Run three rows of table 1 on videos, at the paper's size and schedule; the same command goes on."""
    store = folder / "store"
    prism.ingest(videos, store, num_frames=ON_GPU.num_frames, size=ON_GPU.size, random_test_windows=3)
    rows = {"vpc": [1], "rows": ["prism", "dm", "random"]}
    print(prism.reproduce("table1", [store], folder, device="cuda", **rows))


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__), ON_GPU)
    if not torch.cuda.is_available():
        sys.exit("This PyTorch sees no GPU.")
    subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/test_cuda.py"], check=True)
    report("gpu", sizes, measure(sizes), output)
    if sizes.videos:
        first_table(sizes.videos, output.with_suffix("") if output else Path("runs/gpu"))
