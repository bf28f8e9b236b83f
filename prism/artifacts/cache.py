"""Tensors that are costly to compute, kept beside the clips of a store. A cache may be lost at any time."""

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from prism.artifacts.store import ClipStore
from prism.errors import OutputError
from prism.machine.devices import rounding
from prism.machine.files import lock, write_atomically
from prism.machine.provenance import versions
from prism.machine.text_io import canonical_json

KEPT_BYTES = 4 * 2**30
"""Largest total size of one kind of file in a store; the oldest files are removed, but never the newest."""


@dataclass(frozen=True)
class CacheFile:
    """The file `cache/<kind>-<digest>.safetensors` of a tensor in a store, with the SHA-256 of its values."""

    store: ClipStore
    path: Path
    kind: str

    @classmethod
    def of(cls, store: ClipStore, kind: str, key: dict[str, Any], device: torch.device) -> "CacheFile":
        identity = canonical_json([store.fingerprint, key, versions(), *rounding(device)])
        digest = hashlib.sha256(identity.encode()).hexdigest()
        return cls(store, store.place / "cache" / f"{kind}-{digest[:16]}.safetensors", kind)

    def load(self) -> Tensor | None:
        """The tensor, on the CPU; None if it is not in the cache, or its file is damaged."""
        try:
            with safetensors.safe_open(self.path, framework="pt") as file:
                found, digest = file.get_tensor(self.kind), (file.metadata() or {}).get("sha256")
        except (OSError, safetensors.SafetensorError):
            return None
        return found if digest == _digest(found) else None

    def save(self, tensor: Tensor) -> None:
        """Write the tensor if that is possible, and remove the oldest of its kind beyond `KEPT_BYTES`.

        ArtifactError if the store has changed: later runs would take the tensor for that of the new clips.
        """
        self.store.check_unchanged()
        # The store may be read-only, or another run may fill or clear the same cache.
        with contextlib.suppress(OSError, OutputError), lock(self.path):
            held = tensor.cpu().contiguous()
            write_atomically(self.path, safetensors.torch.save({self.kind: held}, {"sha256": _digest(held)}))
            others = self.path.parent.glob(f"{self.kind}-*.safetensors")
            files = sorted(others, key=lambda file: file.stat().st_mtime_ns)
            total = sum(file.stat().st_size for file in files)
            for file in files:
                if total <= KEPT_BYTES or file == self.path:
                    break
                total -= file.stat().st_size
                file.unlink()


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.detach().numpy().data).hexdigest()
