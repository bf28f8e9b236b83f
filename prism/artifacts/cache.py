"""Tensors that are costly to compute, kept beside the clips of a store. A cache may be lost at any time."""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from prism.artifacts.store import ClipStore
from prism.errors import OutputError
from prism.machine.files import write_atomically
from prism.machine.locks import claim, lock_path
from prism.machine.provenance import versions
from prism.machine.texts import canonical_json

KEPT_BYTES = 2**30
"""What all files of one kind may take in a store; the oldest go first, the newest stays whatever its size."""


def remembered(
    store: ClipStore,
    kind: str,
    key: dict[str, Any],
    device: torch.device,
    shape: tuple[int, int],
    compute: Callable[[], Tensor],
) -> Tensor:
    """A tensor from the store's cache, or computed and put there.

    Args:
        store: the data set that it is about.
        kind: its name; its file is `cache/<kind>-<digest>.safetensors`.
        key: all that its values depend on, beside the store, the versions and the type of the device.
        device: where it is computed.
        shape: its shape; a file of another one counts as damaged, and is made again.
        compute: computes it, float32 of this shape.

    Returns:
        The tensor on the CPU, the same bits from the cache as without it.
    """
    identity = canonical_json([store.fingerprint, key, versions(), device.type])
    digest = hashlib.sha256(identity.encode()).hexdigest()
    path = store.path / "cache" / f"{kind}-{digest[:16]}.safetensors"
    found = _read(path, kind, shape)
    if found is not None and lock_path(path).exists():
        # A run that was killed just after the file had got its name has left its claim; a living one keeps it.
        with contextlib.suppress(OSError, OutputError), claim(path):
            pass
    if found is None:
        found = compute().cpu()
        # A store may lie where nothing can be written, or another run may fill or clear the same cache.
        with contextlib.suppress(OSError, OutputError), claim(path):
            write_atomically(path, safetensors.torch.save({kind: found.contiguous()}))
            files = sorted(path.parent.glob(f"{kind}-*.safetensors"), key=lambda file: file.stat().st_mtime_ns)
            total = sum(file.stat().st_size for file in files)
            for file in files:
                if total <= KEPT_BYTES or file == path:
                    break
                total -= file.stat().st_size
                file.unlink()
    return found


def _read(path: Path, kind: str, shape: tuple[int, int]) -> Tensor | None:
    # The store may be a stranger's: a pipe in the place of the file would never end.
    if not path.is_file():
        return None
    try:
        found = safetensors.torch.load_file(path)[kind]
    except (OSError, KeyError, safetensors.SafetensorError):
        return None
    is_good = found.shape == shape and found.dtype == torch.float32 and bool(found.isfinite().all())
    return found if is_good else None
