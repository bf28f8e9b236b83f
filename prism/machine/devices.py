"""Devices: the choice of one, repeatable arithmetic on it, and the memory that the process keeps."""

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prism.errors import ConfigError, EngineError

if TYPE_CHECKING:
    import torch

CGROUPS = Path("/sys/fs/cgroup")  # Limits of a container: of cgroups version 2, and in `memory` of version 1.


def pick_device(name: "str | torch.device") -> "torch.device":
    """The torch device for `auto`, `cpu`, `cuda` or `cuda:1`; a ConfigError for others, or without such a GPU.

    `cuda` becomes the number of the current GPU: work on another one would not be waited for.
    """
    import torch

    name = str(name)
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", name):
        raise ConfigError(f"device = {name!r}, but it must be auto, cpu, cuda, or a GPU by its number, as cuda:1.")
    num = torch.cuda.device_count()
    if name == "cpu" or (name == "auto" and not num):
        return torch.device("cpu")
    if not num:
        raise ConfigError(f"device = '{name}', but this PyTorch sees no CUDA device. Use --device cpu.")
    index = int(name.partition(":")[2]) if ":" in name else torch.cuda.current_device()
    if index >= num:
        raise ConfigError(f"device = '{name}', but there are {num} CUDA devices, counted from 0.")
    return torch.device("cuda", index)


def free_bytes(device: "torch.device") -> int | None:
    """Free bytes of a device's memory, within the limit of a container; None if the system reports none."""
    import torch

    if device.type == "cuda":
        # PyTorch keeps memory that it has freed, and can use it again.
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    with contextlib.suppress(OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
        for at, *names in ((".", "max", "current"), ("memory", "limit_in_bytes", "usage_in_bytes")):
            with contextlib.suppress(OSError, ValueError):  # No container, or no limit: `max`.
                limit, used, stat = ((CGROUPS / at / f"memory.{name}").read_text() for name in (*names, "stat"))
                files = re.findall(r"^(?:in)?active_file (\d+)", stat, re.M)  # Given back where memory is short.
                free.append(int(limit) - int(used) + sum(map(int, files)))
        return min(free, default=None)
    return None


# Some of these are errors of cuDNN and cuBLAS when they find no memory for their own work.
_EXHAUSTED = re.compile(
    "can't allocate memory|find an engine|error: out of memory|ALLOC(ATION)?_FAILED|CUBLAS_STATUS_NOT_INITIALIZED",
    re.I,
)
_LOST = re.compile("CUDA error|CUDNN_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether memory, of a CPU or a GPU, is exhausted, so that smaller parts would help."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or bool(_EXHAUSTED.search(str(error)))


@contextlib.contextmanager
def explained(smaller: str, again: str) -> Iterator[None]:
    """Turn the error of exhausted memory into a ConfigError, and that of a failed GPU into an EngineError.

    Args:
        smaller: the options that save memory.
        again: advice on how to go on after the GPU has failed.
    """
    try:
        yield
    except RuntimeError as error:
        first = str(error).split(". ")[0].splitlines()[0] if str(error) else ""
        if is_out_of_memory(error):
            raise ConfigError(f"out of memory ({first}). Pass a smaller {smaller}.") from None
        if _LOST.search(str(error)):
            raise EngineError(f"the GPU failed ({first}). {again}") from None
        raise


def set_environment() -> None:
    """Set environment variables that PyTorch reads when it is imported. Only programs may do so, not a library."""
    # By default waiting threads keep their cores busy. With PASSIVE, ten clips of 8×64×64 that go through a
    # network of width 16 side by side take 0.7 of the time on two cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # cuBLAS works in memory of a fixed size, so that its sums repeat.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def send(tensor: "torch.Tensor", device: "torch.device") -> "torch.Tensor":
    """A tensor on a device; where it comes from the CPU, without waiting for what the device does."""
    # A copy to the CPU must wait: else its values could be read before they have arrived.
    return tensor.to(device, non_blocking=tensor.device.type == "cpu")


@contextlib.contextmanager
def deterministic(device: "torch.device") -> Iterator[None]:
    """Let PyTorch compute the same bits again: in one thread on a CPU, with cuDNN's deterministic convolutions.

    Several threads sum the gradients of weights in parts, and so round them otherwise than one thread.
    """
    import torch

    cudnn = torch.backends.cudnn
    threads, chosen = torch.get_num_threads(), (cudnn.deterministic, cudnn.benchmark)
    if device.type == "cpu":
        torch.set_num_threads(1)
    else:
        cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        if device.type == "cpu":
            torch.set_num_threads(threads)
        else:
            cudnn.deterministic, cudnn.benchmark = chosen


@contextlib.contextmanager
def plain_torch() -> Iterator[None]:
    """PyTorch as a program finds it, whatever the caller has set: float32 on the CPU, gradients, no autocast."""
    import torch

    dtype, autocast = torch.get_default_dtype(), partial(torch.autocast, enabled=False)
    here = contextlib.nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
    torch.set_default_dtype(torch.float32)
    try:
        with here, torch.inference_mode(False), torch.enable_grad(), autocast("cpu"), autocast("cuda"):
            yield
    finally:
        torch.set_default_dtype(dtype)


def rounding(device: "torch.device") -> list[str | bool]:
    """Settings that, beside the versions, decide how a device rounds: type and precisions; of a GPU its name."""
    import torch

    if device.type != "cuda":
        parts = [getattr(torch.backends.mkldnn, name, None) for name in ("conv", "matmul", "rnn")]
        chosen = [getattr(part, "fp32_precision", "none") for part in parts]
        return [device.type, *(chosen if {*chosen} - {"none", "ieee"} else [])]
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    # PyTorch before 2.9 has one setting for all of cuDNN; later versions refuse to read it if its parts differ.
    if hasattr(cudnn, "conv"):
        said = [part.fp32_precision for part in (cudnn.conv, cudnn.rnn, matmul)]
    else:
        said = [cudnn.allow_tf32, matmul.allow_tf32]
    return [device.type, torch.cuda.get_device_name(device), *said]


TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
"""Parameters of glibc's `mallopt`: which memory goes back to the system, and how many pools threads have of it."""
LARGEST = 2**31 - 1


def keep_freed_memory(*, in_one_pool: bool = False) -> None:
    """Let the process keep freed memory until it ends. Only programs may do so, not a library.

    By default glibc gives freed tensors back to Linux, which clears and maps every page anew. Kept memory saves
    15 % of a training step and 25 % of the class means of a network. Another C library is left as it is.

    Args:
        in_one_pool: whether all threads share kept memory; only before a second thread starts. DM on a tenth of
            MiniUCF then takes 443 MiB and not 732, but networks side by side up to 1.18 times as long.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, LARGEST)
        mallopt(TRIM_THRESHOLD, LARGEST)
        if in_one_pool:
            mallopt(ARENA_MAX, 1)


def give_back_freed_memory() -> None:
    """Give freed memory that the process has kept back to the system."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
