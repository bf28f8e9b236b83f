"""What a condensation will take, known before a byte of it is allocated; the data set's size is no part of it."""

from dataclasses import dataclass

import torch

from prism.artifacts.hallucinator import MEMORIES
from prism.artifacts.store import ClipStore
from prism.condensation.chunk import FIRST_CHUNK
from prism.condensation.options import CondenseConfig
from prism.errors import ConfigError
from prism.machine.free_memory import available_memory_bytes
from prism.networks.build import build_for
from prism.networks.training_memory import embedding_bytes, gib

COPIES = 8
"""Of the videos' clips as float32: what is trained, its momentum and gradient, the clips, their gradients in parts
and joined, and what rendering and its reverse need. (Measured on a CPU: 7.5 for 200 videos of 8×64×64, 8.6 with a
running mean of the gradients, 6.7 with static-dynamic.)"""
PASSES = 2
"""What the forward pass keeps, and as much for its gradients. (Measured: 1.9 at width 32, 16×112×112.)"""


@dataclass(frozen=True)
class CondensingMemory:
    """The memory that a condensation takes, apart from what small operations need for a moment.

    Attributes:
        num_together: synthetic clips that are differentiated together.
        video_bytes: the videos, and all that is as large as they are.
        chunk_bytes: what those clips take in the network, with their gradients; real ones take less.
        network_bytes: weights, and the class means of a bank.
    """

    num_together: int
    video_bytes: int
    chunk_bytes: int
    network_bytes: int

    @property
    def total_bytes(self) -> int:
        """Everything together."""
        return self.video_bytes + self.chunk_bytes + self.network_bytes


def condensing_memory(store: ClipStore, config: CondenseConfig, device: torch.device) -> CondensingMemory:
    """Count what a condensation takes: with the chunk that a CPU uses, or the least that a GPU can do with."""
    network = build_for(store, config.model, "meta", width=config.width)
    # The still images of static-dynamic are matched all at once.
    of_class = config.vpc * (MEMORIES if config.method == "static-dynamic" else 1)
    classes = len(store.classes)
    chunk = FIRST_CHUNK["cpu"] if device.type == "cpu" else 1
    together = min(classes, max(1, chunk // of_class)) * of_class
    weights = sum(parameter.nbytes for parameter in network.parameters())
    weights += 0 if config.precision == "float32" else weights // 2
    copies = COPIES + (config.gradient_decay > 0)
    means = 4 * classes * network.embed_dim * (config.bank_size if config.real_moments == "bank" else 1)
    return CondensingMemory(
        together,
        copies * classes * config.vpc * 4 * store.clip_bytes,
        PASSES * max(together, chunk) * embedding_bytes(network),
        weights + means,
    )


def check_memory(store: ClipStore, config: CondenseConfig, device: torch.device) -> None:
    """Refuse a condensation that cannot fit into memory before it starts.

    Raises:
        ConfigError: it takes more than the device has free.
    """
    needs, free = condensing_memory(store, config, device), available_memory_bytes(device)
    if free is None or needs.total_bytes <= free:
        return
    raise ConfigError(
        f"condensing {config.vpc} videos for each of {len(store.classes)} classes takes "
        f"{gib(needs.total_bytes)}: {gib(needs.video_bytes)} for the videos, their gradients and momentum, "
        f"{gib(needs.chunk_bytes)} for {needs.num_together} of them at a time in {config.model}, "
        f"{gib(needs.network_bytes)} for its weights and class means. {device.type} has {gib(free)} free. "
        "Pass a smaller --vpc or --width, or ingest smaller clips."
    )
