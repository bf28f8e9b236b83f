"""Claim: an iteration is several times as fast as the peers' loop doing exactly the same work.

Ours has two parts: the class means of its network, which a first run computes ahead, and the step that reads them.
"""

import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.data import paper_config, random_store
from benchmarks.measure import Sizes, Spread, fewer, ratios, read_arguments, report, seconds
from prism.artifacts.clips import to_model_input
from prism.artifacts.store import ClipStore
from prism.condensation.options import CondenseConfig
from prism.condensation.prepare import Setup, precompute_class_means
from prism.condensation.random_networks import BLOCK, PRECISIONS
from prism.machine.run import Run

CPU = torch.device("cpu")
TURNS = 20
"""Times that a run can do its work, by default."""


class PeersNetwork(nn.Module):
    """The blocks of miniC3D as its publications write them, for the embedding alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, pool in [(3, width, (1, 2, 2)), (width, 2 * width, 2), (2 * width, 2 * width, 2)]:
            layers += [nn.Conv3d(before, after, (3, 7, 7), (1, 2, 2), (1, 3, 3)), nn.ReLU(), nn.MaxPool3d(pool)]
        self.blocks = nn.Sequential(*layers)

    def forward(self, clips: Tensor) -> Tensor:
        """Clips (N, C, T, H, W) to embeddings (N, D)."""
        return self.blocks(clips).flatten(1)


class PeersLoop:
    """Distribution matching as the field's code does it, every frame trainable.

    One class at a time: random clips gathered one by one from a float32 tensor, embedded, then the class's
    synthetic clips; losses summed over classes; one backward pass, one SGD step; a new network every time. On a
    GPU, as in ours, all clips lie there as uint8 and are gathered there.
    """

    def __init__(
        self, store: ClipStore, sizes: Sizes, lr: float = 1.0, momentum: float = 0.95, device: torch.device = CPU
    ) -> None:
        real = store.clips("train")
        self.sizes, self.device = sizes, device
        self.normalisation, on_gpu = store.normalisation, device.type == "cuda"
        self.clips = real.frames.to(device) if on_gpu else self.shown(real.frames).contiguous()
        self.of_class = [torch.nonzero(real.labels == label).flatten() for label in range(sizes.classes)]
        shape = (sizes.classes * sizes.vpc, 3, store.num_frames, *store.size)
        self.syn = torch.randn(shape).to(device).requires_grad_()
        self.optimiser = torch.optim.SGD([self.syn], lr=lr, momentum=momentum)

    def shown(self, frames: Tensor) -> Tensor:
        """Pixels (N, T, C, H, W) as a network takes them."""
        return to_model_input(frames, self.normalisation)

    def losses(self, network: nn.Module, batches: Sequence[Tensor]) -> Tensor:
        """(C,) losses of one batch of positions for each class."""
        found = []
        for syn, batch in zip(self.syn.split(self.sizes.vpc), batches, strict=True):
            if self.clips.is_cuda:
                real = self.shown(self.clips[batch.to(self.device)])
            else:
                real = torch.stack([self.clips[i] for i in batch.tolist()])
            target = network(real).detach().mean(dim=0)
            found.append((target - network(syn).mean(dim=0)).square().sum())
        return torch.stack(found)

    def step(self) -> None:
        """One iteration."""
        network = PeersNetwork(self.sizes.width).to(self.device).requires_grad_(False)
        batches = [clips[torch.randperm(len(clips))[: self.sizes.batch_real]] for clips in self.of_class]
        loss = self.losses(network, batches).sum()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()


class FirstRun:
    """Iterations of a first run: class means computed ahead, then a step for each network.

    Attributes:
        num: iterations that `work` does: one on a CPU, a block of them on a GPU.
    """

    def __init__(
        self, store: ClipStore, config: CondenseConfig, device: torch.device = CPU, turns: int = TURNS
    ) -> None:
        self.num = 1 if device.type == "cpu" else BLOCK
        self.blocks, self.run = itertools.count(), Run(device=device.type)
        self.networks = Setup(store, config).named_networks(device, name="benchmark", block=self.num)
        # The steps read kept means of other networks, over one clip: as large, and made sooner.
        setup = Setup(store, replace(config, batch_real=1, iterations=turns * self.num))
        setup.precompute(self.run)
        self.condensation = setup.start(device)

    def work(self) -> None:
        """Do `num` iterations."""
        precompute_class_means(self.networks, {(next(self.blocks), False)}, self.run)
        for _ in range(self.num):
            self.condensation.step()


def measure(sizes: Sizes) -> dict[str, Any]:
    """Seconds of the peers' iteration and of ours, and their ratio, in each precision."""
    with tempfile.TemporaryDirectory() as folder:
        store = random_store(Path(folder) / "store", sizes)
        ours = {name: FirstRun(store, paper_config(sizes, precision=name)) for name in PRECISIONS}
        works = {"peers": PeersLoop(store, sizes).step} | {name: run.work for name, run in ours.items()}
        found = seconds(works, fewer(sizes))
        for name, run in ours.items():
            found[name] = [time / run.num for time in found[name]]
    rows = {"peers' iteration, s": Spread.of(found["peers"])}
    for precision in PRECISIONS:
        rows[f"our iteration in {precision}, s"] = Spread.of(found[precision])
        rows[f"ratio in {precision}"] = ratios(found["peers"], found[precision])
    return rows


if __name__ == "__main__":
    sizes, output = read_arguments(str(__doc__))
    report("peers", sizes, measure(sizes), output)
