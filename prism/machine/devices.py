"""Where networks run, and with how many threads."""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, get_args

from prism.errors import ConfigError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
"""Where networks may run."""


def pick_device(name: str) -> "torch.device":
    """The torch device for `auto`, `cpu` or `cuda`.

    Raises:
        ConfigError: it is none of these, or `cuda` was asked for and is not there.
    """
    import torch

    if name not in get_args(Device):
        raise ConfigError(f"device = {name!r}, but it must be one of {', '.join(get_args(Device))}.")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device = 'cuda', but this PyTorch sees no CUDA device. Use --device cpu.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def let_waiting_threads_sleep() -> None:
    """Let PyTorch's threads sleep between their turns; before PyTorch is imported.

    By default they keep their cores busy for some milliseconds, in which other threads could work: with it, the
    parts of a batch that go through a network side by side take 0.7 of the time. (Measured: ten clips of
    8×64×64, width 16, two cores.) This is for programs, as `keep_freed_memory` is.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def send(tensor: "torch.Tensor", device: "torch.device") -> "torch.Tensor":
    """A tensor on a device; where it comes from the CPU, without waiting for what the device does."""
    # The way back must wait: its values would be read before they are there.
    return tensor.to(device, non_blocking=tensor.device.type == "cpu")


@contextlib.contextmanager
def repeatably(device: "torch.device") -> Iterator[None]:
    """Let PyTorch compute so that the same bits come again: in one thread on a CPU, without a race on a GPU.

    Several threads sum the gradients of weights in parts, and so round them otherwise than one thread. On a GPU
    the fastest convolutions add up in any order; cuDNN has others.
    """
    import torch

    if device.type == "cpu":
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
        return
    cudnn = torch.backends.cudnn
    chosen = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = chosen


def rounding(device: "torch.device") -> list[str | bool]:
    """What decides how a device rounds, beside the versions; of a CPU only that it is one."""
    import torch

    if device.type != "cuda":
        return [device.type]
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    # PyTorch before 2.9 has one setting for all of cuDNN; later ones refuse to tell it where its parts differ.
    if hasattr(cudnn, "conv"):
        said = [part.fp32_precision for part in (cudnn.conv, cudnn.rnn, matmul)]
    else:
        said = [cudnn.allow_tf32, matmul.allow_tf32]
    return [device.type, torch.cuda.get_device_name(device), *said]
