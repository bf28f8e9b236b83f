"""Memory that is still free, so that a run which needs more is refused before it starts."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def available_memory_bytes(device: "torch.device") -> int | None:
    """Memory that a device can still give, in bytes; None where the system does not tell.

    On a CPU it is what the machine has left, or the control groups of this process (a container's), if less. On a
    GPU it is what the driver has left, and what PyTorch keeps for its next tensors.
    """
    import torch

    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    free = list(of_groups(Path("/")))
    with contextlib.suppress(OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min(free, default=None)


VERSIONS = {
    1: ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
}
"""By version of control groups: where Linux mounts them, and its names of limit, usage and the cache in it."""


def of_groups(root: Path) -> Iterator[int]:
    """The memory that is left in each control group above this process that has a limit, in bytes.

    Args:
        root: the top of the file system; `proc/self/cgroup` and `sys/fs/cgroup` below it are read.
    """
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            hierarchy, controllers, name = line.split(":", 2)
            if hierarchy != "0" and "memory" not in controllers.split(","):
                continue
            place, limit, usage, cache = VERSIONS[2 if hierarchy == "0" else 1]
            own = root / place / name.strip("/")
            # In a container the name may be the host's, below which nothing is mounted: its own group is the top.
            for group in (own, *own.parents):
                if not group.is_relative_to(root / place):
                    break
                with contextlib.suppress(OSError, ValueError, KeyError):
                    statistics = dict(entry.split() for entry in (group / "memory.stat").read_text().splitlines())
                    used = int((group / usage).read_text()) - int(statistics[cache])
                    yield max(0, int((group / limit).read_text()) - used)
