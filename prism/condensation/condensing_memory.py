"""The memory that a condensation will take, known before a byte is allocated; the data set may have any size."""

from bisect import bisect_right
from dataclasses import dataclass

import torch

from prism.artifacts.store import ClipStore
from prism.condensation.chunk import FIRST_CHUNK, REAL_BYTES, Chunk
from prism.condensation.curvature import PROBED
from prism.condensation.method import clip_bytes
from prism.condensation.options import METHODS, OBJECTIVES, CondenseConfig
from prism.errors import ConfigError
from prism.machine.devices import give_back_freed_memory
from prism.machine.free_memory import available_memory_bytes
from prism.networks.build import build_for
from prism.networks.options import NETWORKS
from prism.networks.training_memory import gib

REAL_PER_SYNTHETIC = 2
"""Real clips that take as much as a synthetic one: nothing is kept for their gradients."""
OTHER_NETWORKS = 2
"""Beside that of the iterations: one that judges the videos, and one that has found their learning rate, whose
memory the system need not have back. (Without them a tenth of MiniUCF and of Kinetics-400 took 1.16 to 1.41 times
as much as this counts, on a CPU; docs/performance.md has the figures with them.)"""


@dataclass(frozen=True)
class CondensingMemory:
    """The memory that a condensation takes, apart from what small operations need for a moment.

    Attributes:
        num_together: synthetic clips that are differentiated together.
        video_bytes: the videos, and all that is as large as they are.
        chunk_bytes: what clips take in the network: those, with their gradients, or a chunk of real ones.
        network_bytes: weights of all networks, and class means.
    """

    num_together: int
    video_bytes: int
    chunk_bytes: int
    network_bytes: int

    @property
    def total_bytes(self) -> int:
        """Everything together."""
        return self.video_bytes + self.chunk_bytes + self.network_bytes


def condensing_memory(
    store: ClipStore,
    config: CondenseConfig,
    device: torch.device,
    side_by_side: int = 1,
    num_classes: int | None = None,
) -> CondensingMemory:
    """Count what a condensation takes.

    Args:
        store: the data set.
        config: the options of the run.
        device: where networks run.
        side_by_side: chunks of synthetic clips, or classes that are larger, which are differentiated at a time.
        num_classes: classes that are condensed, all by default. Some more may be looked at for the learning rate.
    """
    method = METHODS.make(config.method, config)
    chunk = FIRST_CHUNK["cpu"] if device.type == "cpu" else 1
    of_class, every = method.clips_together(config), len(store.classes)
    classes = every if num_classes is None else max(num_classes, min(PROBED, every))
    together = min(classes, side_by_side * max(1, chunk // of_class)) * of_class
    objective = OBJECTIVES.make(config.objective, config)
    network = build_for(store, config.model, "meta", width=config.width)
    of_clips, of_network = objective.memory(network, config, max(together, chunk // REAL_PER_SYNTHETIC))
    if device.type == "cpu" and Chunk.of_real_clips(network, device).size > chunk:
        of_clips = max(of_clips, REAL_BYTES)
    # The gradients of all clips are joined when the network is done, where the chunk has been.
    of_videos, joined = (of_all(store, config) * classes // every for of_all in (method.video_bytes, clip_bytes))
    of_videos += max(0, joined - of_clips)
    of_others = OTHER_NETWORKS * sum(parameter.nbytes for parameter in network.parameters())
    return CondensingMemory(together, of_videos, of_clips, of_network + of_others)


def parts_side_by_side(store: ClipStore, config: CondenseConfig, device: torch.device, num: int) -> int:
    """Parts of `num` classes that are differentiated at a time: as many as there are threads and memory for."""
    if device.type != "cpu":
        return 1
    most, free = min(num, torch.get_num_threads()), available_memory_bytes(device)
    if free is None:
        return most
    # More of them never take less, and counting the memory of a large network takes half a second.
    numbers = range(2, most + 1)
    return 1 + bisect_right(
        numbers, free, key=lambda some: condensing_memory(store, config, device, some).total_bytes
    )


def networks_side_by_side(store: ClipStore, config: CondenseConfig, device: torch.device) -> int:
    """Networks that embed real clips at a time: as many as there are threads and memory for; one on a GPU."""
    if device.type != "cpu":
        return 1
    needs, free = condensing_memory(store, config, device), available_memory_bytes(device)
    if free is None:
        return torch.get_num_threads()
    room = (free - needs.video_bytes) // (needs.chunk_bytes + needs.network_bytes)
    return max(1, min(torch.get_num_threads(), room))


def check_memory(store: ClipStore, config: CondenseConfig, device: torch.device, num_classes: int) -> None:
    """Refuse a condensation of so many classes that cannot fit into memory before it starts.

    Raises:
        ConfigError: it takes more than the device has free.
    """
    give_back_freed_memory()
    needs = condensing_memory(store, config, device, num_classes=num_classes)
    free = available_memory_bytes(device)
    if free is None or needs.total_bytes <= free:
        return
    network = NETWORKS.name_of(config.model)
    raise ConfigError(
        f"condensing {config.vpc} videos for each of {num_classes} classes takes "
        f"{gib(needs.total_bytes)}: {gib(needs.video_bytes)} for the videos, their gradients and momentum, "
        f"{gib(needs.chunk_bytes)} for {needs.num_together} of them at a time in {network}, "
        f"{gib(needs.network_bytes)} for its weights and class means. {device.type} has {gib(free)} free. "
        "Pass a smaller --vpc or --width, or ingest smaller clips."
    )
