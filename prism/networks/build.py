"""Construction of networks for clips of one shape, with values on a device, or without on the device `meta`."""

import inspect
import warnings
from functools import partial
from typing import Any

import torch

from prism.artifacts.store import ClipStore
from prism.errors import ConfigError
from prism.machine.randomness import generator
from prism.networks.initial import initialise, lay_out
from prism.networks.network import Network
from prism.networks.options import NETWORKS

Model = str | type[Network] | partial[Network]
"""A network as options hold it: a name, a subclass of `Network`, or one with some of its options."""


def build(model: Model, device: torch.device | str = "cpu", *, seed: int = 0, **arguments: Any) -> Network:
    """A network with the initial values of a seed.

    Args:
        model: a name, as `convnet3d` or `module:MyNetwork(depth=3)`, or a subclass of `Network`.
        device: where its parameters live; on `meta` it has neither memory nor values.
        seed: of the values; with this seed `prism.networks.training.train` starts from the same values.
        arguments: `num_classes`, `num_frames`, `size` of `Network`; `width`, `hidden`, 0 for the published number.

    Raises:
        ConfigError: there is no such network, it lacks an option or initial values, or the clips are too small.
    """
    (network_type, own), name = NETWORKS.resolve(model), NETWORKS.name_of(model)
    shape, options = (inspect.signature(each).parameters.keys() for each in (Network, network_type))
    arguments = {key: value for key, value in arguments.items() if value or key in shape}
    for option in sorted(arguments.keys() - shape - options):
        raise ConfigError(f"{option} = {arguments[option]}, but {name} does not have that option.")
    for option in sorted(own.keys() & shape):
        raise ConfigError(f"network '{name}': {option} is that of the clips, so it is no option.")
    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.filterwarnings("error", ".* is a no-op")
            network = network_type(**arguments | own)
            network.made_as = name
    except Exception as error:
        if "is a no-op" in str(error):
            said = f"the network '{name}' loads values in __init__, which has no memory for them"
            raise ConfigError(f"{said}. Load them in initialise(generator).") from None
        raise NETWORKS.unmade(model, error) from error
    if getattr(network, "embed_dim", 0) < 1:
        raise ConfigError(f"the network '{name}' has no embed_dim above 0, the length of its embeddings.")
    attributes = (item for module in network.modules() for item in vars(module).items())
    if loose := [key for key, value in attributes if isinstance(value, torch.Tensor)]:
        said = f"the network '{name}' holds the tensor '{loose[0]}', which is no parameter or buffer"
        raise ConfigError(f"{said}. Use register_buffer, and set its values in initialise(generator).")
    if str(device) != "meta":
        initialise(allocate(network, torch.device(device)), generator(seed, "init"))
    return network


def build_for(store: ClipStore, model: Model, device: torch.device | str = "cpu", **options: int) -> Network:
    """A network that `build` makes for the clips and the classes of a store."""
    shape = {"num_classes": len(store.classes), "num_frames": store.num_frames, "size": store.size}
    return build(model, device, **shape, **options)


def allocate(network: Network, device: torch.device) -> Network:
    """The network, moved from the device `meta` to memory in a fast layout; `initialise` must draw its values."""
    # Like `to_empty`, whose import of symbolic shapes would cost `prism evaluate` a third of a second.
    network._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device=device))
    if device.type == "cpu":
        lay_out(network, network.CPU_LAYOUT)
    return network
