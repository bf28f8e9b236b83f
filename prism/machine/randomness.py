"""Random numbers: named streams from one seed, none of which has a state to save."""

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derive_seed(seed: int, name: str, *indices: int | str) -> int:
    """A 63-bit seed for one named purpose; different names and indices give unrelated seeds.

    PyTorch's generators on a CPU use its lower 32 bits.
    """
    key = json.dumps([seed, name, *indices]).encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big") >> 1


def generator(
    seed: int, name: str, *indices: int | str, device: "torch.device | str" = "cpu"
) -> "torch.Generator":
    """The random generator of one named stream at one position.

    Streams have no state to save: iteration i uses `generator(seed, "network", i)`, so a resumed run
    draws what an uninterrupted one would, and a new consumer of randomness changes no other stream.
    """
    import torch

    return torch.Generator(device).manual_seed(derive_seed(seed, name, *indices))
