"""Building networks: from a part, for clips of a shape, with or without memory for their weights."""

import inspect
from functools import partial

import torch
from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from prism.artifacts.store import ClipStore
from prism.errors import ConfigError, PrismError
from prism.networks.network import Network
from prism.networks.options import NETWORKS

Model = str | type[Network] | partial[Network]
"""A network as options hold it: a name, a subclass of `Network`, or one with some of its options."""


def build(
    model: Model,
    device: torch.device | str = "cpu",
    *,
    num_classes: int,
    num_frames: int,
    size: int | tuple[int, int],
    **options: int,
) -> Network:
    """A network without values, which `initialise` fills.

    Args:
        model: a name, as `convnet3d` or `module:MyNetwork(depth=3)`, or a subclass of `Network`.
        device: where its parameters live; on `meta` it takes no memory.
        num_classes: number of logits.
        num_frames: frames per clip (T).
        size: height and width in pixels.
        options: `width`, `hidden`; 0 leaves one as published.

    Raises:
        ConfigError: there is no such network, it has no such option, it lacks a method, two of its parameters are
            one tensor, it sets values that would be lost, or the clips are too small for it.
    """
    network_type, own = NETWORKS.resolve(model)
    name = NETWORKS.name_of(model)
    if not (isinstance(network_type, type) and issubclass(network_type, Network)):
        raise ConfigError(
            f"the network '{name}' must be a class that derives from prism.networks.network.Network. "
            "docs/extending.md shows one."
        )
    for lacking in sorted(network_type.__abstractmethods__):
        raise ConfigError(f"the network '{name}' has no {lacking}(…). docs/extending.md shows one.")
    given = {option: value for option, value in options.items() if value}
    for option, value in given.items():
        if not _takes(network_type, option):
            those = [other for other in NETWORKS.registry if _takes(NETWORKS.resolve(other)[0], option)]
            hint = f"; {' and '.join(those)} have it." if those else "."
            raise ConfigError(f"{option} = {value}, but {name} does not have that option{hint}")
    arguments = given | own | {"num_classes": num_classes, "num_frames": num_frames, "size": size}
    try:
        with torch.device("meta"):
            network = network_type(**arguments)
    except PrismError:
        raise
    except Exception as error:
        raise NETWORKS.unmade(model, error) from error
    if not hasattr(network, "size"):
        begins = "super().__init__(num_classes=…, num_frames=…, size=…)"
        raise ConfigError(f"the network '{name}' does not begin with {begins}. docs/extending.md shows one.")
    if not hasattr(network, "embed_dim"):
        raise ConfigError(f"the network '{name}' has no embed_dim, the length of its embeddings.")
    _check_untied(network)
    _check_unwritten(network, network.name)
    return allocate(network, torch.device(device))


def _check_untied(network: Network) -> None:
    """Refuse two parameters that are one tensor: each would be given memory of its own."""
    names: dict[torch.Tensor, str] = {}
    # A layer that stands in two places is visited once, and stays one layer.
    for prefix, layer in network.named_modules():
        for name, parameter in layer.named_parameters(prefix, recurse=False, remove_duplicate=False):
            if parameter in names:
                raise ConfigError(
                    f"the parameters {names[parameter]} and {name} of network '{network.name}' share one tensor; "
                    "training would give them different values. Use one layer in both places."
                )
            names[parameter] = name


@torch.no_grad()
def _check_unwritten(module: nn.Module, network: str, prefix: str = "") -> None:
    """Refuse values that a network sets where it is built, as by `nn.init`: it is built without memory.

    PyTorch counts what writes into a tensor, on the meta device, too. More writes than those of a layer's own
    `reset_parameters` are the network's. Whatever has a method `initialise` may set them again there.
    """
    if callable(getattr(module, "initialise", None)):
        return
    # The last layer of an attention, a class of its own, is written by the attention as well.
    reset = getattr(module, "reset_parameters", None)
    if callable(reset) and not isinstance(module, NonDynamicallyQuantizableLinear):
        held = dict([*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)])
        before = {name: value._version for name, value in held.items()}
        reset()
        for name, value in held.items():
            if before[name] > value._version - before[name]:
                raise ConfigError(
                    f"the values that network '{network}' gives {prefix}{name} in __init__ would be lost: the "
                    "seed of a run draws all values anew. Give it a method initialise(generator)."
                )
    for name, child in module.named_children():
        _check_unwritten(child, network, f"{prefix}{name}.")


def _takes(network_type: type[Network], option: str) -> bool:
    return option in inspect.signature(network_type).parameters


def allocate(network: Network, device: torch.device) -> Network:
    """Give a network on the meta device memory where it is to run, in the layout that is fast there; no values."""
    if device.type == "meta":
        return network
    # As `to_empty` does, which would import symbolic shapes: a third of a second of `prism evaluate`.
    network._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device=device))
    if device.type == "cpu":
        for weight in network.parameters():
            if weight.dim() == 5:
                weight.data = weight.data.to(memory_format=network.CPU_LAYOUT)
    return network


def build_for(store: ClipStore, model: Model, device: torch.device | str = "cpu", **options: int) -> Network:
    """Like `build`, for the clips and the classes of a store."""
    return build(
        model, device, num_classes=len(store.classes), num_frames=store.num_frames, size=store.size, **options
    )
