"""Building networks: by name, for clips of a shape, with or without memory for their weights."""

import inspect

import torch

from prism.artifacts.store import ClipStore
from prism.errors import ConfigError
from prism.networks.convnet3d import ConvNet3D
from prism.networks.network import Network
from prism.networks.recurrent import CnnGru, CnnLstm
from prism.networks.residual import R2Plus1D18

MODELS: dict[str, type[Network]] = {model.NAME: model for model in (ConvNet3D, CnnGru, CnnLstm, R2Plus1D18)}


def build(
    name: str,
    device: torch.device | str = "cpu",
    *,
    num_classes: int,
    num_frames: int,
    size: int | tuple[int, int],
    **options: int,
) -> Network:
    """A network without values, to be filled by `initialise`.

    Args:
        name: a key of `MODELS`.
        device: where its parameters live; on `meta` it takes no memory.
        num_classes: number of logits.
        num_frames: frames per clip (T).
        size: height and width in pixels.
        options: `width`, `hidden`; 0 leaves one as published.

    Raises:
        ConfigError: the network has no such option, or the clips are too small for it.
    """
    given = {option: value for option, value in options.items() if value}
    for option, value in given.items():
        if not _takes(name, option):
            those = [other for other in MODELS if _takes(other, option)]
            hint = f"; {' and '.join(those)} have it." if those else "."
            raise ConfigError(f"{option} = {value}, but {name} does not have that option{hint}")
    with torch.device("meta"):
        network = MODELS[name](num_classes=num_classes, num_frames=num_frames, size=size, **given)
    return allocate(network, torch.device(device))


def allocate(network: Network, device: torch.device) -> Network:
    """Give a network on the meta device memory on another, in the layout that is fast there; no values."""
    if device.type == "cpu":
        network.to(memory_format=network.CPU_LAYOUT)  # type: ignore[call-overload]
    return network.to_empty(device=device)


def build_for(store: ClipStore, name: str, device: torch.device | str = "cpu", **options: int) -> Network:
    """Like `build`, for the clips and the classes of a store."""
    return build(
        name, device, num_classes=len(store.classes), num_frames=store.num_frames, size=store.size, **options
    )


def _takes(name: str, option: str) -> bool:
    return option in inspect.signature(MODELS[name]).parameters
