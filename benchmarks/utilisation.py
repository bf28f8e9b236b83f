"""Claim: an iteration comes near the arithmetic limit of the machine."""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.data import paper_config, random_store
from benchmarks.measure import Sizes, Spread, fewer, read_arguments, report, seconds
from benchmarks.peers import FirstRun
from prism.condensation.networks import BLOCK
from prism.condensation.prepare import Setup
from prism.machine.run import Run
from prism.networks.build import build
from prism.networks.network import Network

MATRIX = 1024


def embedding_macs(network: Network) -> dict[str, int]:
    """Multiply-adds that embedding one clip takes in each convolution, zeros of the padding included.

    Args:
        network: on the meta device, where shapes are known and nothing is computed. Convolutions are all
            that is counted: a recurrent layer would be missing.
    """
    counts: dict[str, int] = {}

    def count(name: str, layer: nn.Module, output: torch.Tensor) -> None:
        assert isinstance(layer, nn.Conv3d)
        counts[name] = output[0].numel() * math.prod(layer.weight.shape[1:])

    hooks = [
        layer.register_forward_hook(lambda layer, _, output, name=name: count(name, layer, output))
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Conv3d)
    ]
    network.embed(torch.empty(1, 3, network.num_frames, *network.size, device="meta"))
    for hook in hooks:
        hook.remove()
    return counts


def iteration_macs(sizes: Sizes, batch_real: int) -> int:
    """Multiply-adds of an iteration: forward for each real clip, forward and backward for each synthetic one.

    The gradient of a convolution's input takes as many as its output, and frozen weights need none.
    """
    shape = {"num_classes": sizes.classes, "num_frames": sizes.num_frames, "size": sizes.size}
    macs = sum(embedding_macs(build("convnet3d", "meta", **shape, width=sizes.width)).values())
    return sizes.classes * (batch_real + 2 * sizes.vpc) * macs


def measure(sizes: Sizes) -> dict[str, Any]:
    """Multiply-adds a second with fresh and with kept class means, as a share of a large matrix product's."""
    a, b = torch.randn(2, MATRIX, MATRIX)
    with tempfile.TemporaryDirectory() as folder:
        store, cpu = random_store(Path(folder) / "store", sizes), torch.device("cpu")
        # A step only reads class means, and those over one clip are as large and made sooner.
        setup = Setup(store, paper_config(sizes, batch_real=1, iterations=BLOCK))
        setup.precompute(Run(device="cpu"))
        kept = setup.start(cpu)
        fresh = FirstRun(store, paper_config(sizes))
        works = {"matrix": lambda: torch.mm(a, b), "fresh": fresh.work, "kept": kept.step}
        found = seconds(works, fewer(sizes))
        found["fresh"] = [time / fresh.num for time in found["fresh"]]
    rate = Spread.of([MATRIX**3 / time / 1e9 for time in found["matrix"]])
    macs = {"fresh": iteration_macs(sizes, sizes.batch_real), "kept": iteration_macs(sizes, 0)}
    rows: dict[str, Any] = {"matrix rate, GMAC/s": rate}
    for name in ("fresh", "kept"):
        rows |= {
            f"{name} iteration, GMAC": macs[name] / 1e9,
            f"{name} iteration, s": Spread.of(found[name]),
            f"{name} iteration at the matrix rate, s": macs[name] / 1e9 / rate.median,
            f"{name} utilisation": Spread.of([macs[name] / 1e9 / time / rate.median for time in found[name]]),
        }
    return rows


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("utilisation", sizes, measure(sizes), output)
