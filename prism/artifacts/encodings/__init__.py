"""Encodings: the tensors that a condensed set stores, how a stranger's are checked, and the clips they stand for.

Each encoding knows its tensors and its entries in the metadata (`docs/formats.md`), and nothing of the set around
them: labels, classes and normalisation are the set's. A `Storage` makes an encoding of frames.
"""

import torch
from torch import Tensor

from prism.artifacts.encodings.encoding import Encoding
from prism.artifacts.encodings.images import DTYPES, scale_names
from prism.artifacts.encodings.sparse import H264Encoding, KeyFrameEncoding
from prism.artifacts.encodings.static_dynamic import StaticDynamicEncoding

ENCODINGS: tuple[type[Encoding], ...] = (KeyFrameEncoding, StaticDynamicEncoding, H264Encoding)


def tensor_problem(encoding: type[Encoding], tensors: dict[str, Tensor]) -> str | None:
    """The first thing that is wrong with the names, number formats and ranks of a file's tensors, or None."""
    expected = {name: (set(DTYPES.values()), rank) for name, rank in encoding.IMAGES.items()}
    expected |= {name: ({dtype}, rank) for name, (dtype, rank) in encoding.TENSORS.items()}
    expected["labels"] = ({torch.int32}, 1)
    for name in encoding.IMAGES:
        if name in tensors and tensors[name].dtype == torch.uint8:
            expected |= dict.fromkeys(scale_names(name), ({torch.float32}, 1))
    if set(tensors) != set(expected):
        return f"must hold the tensors {sorted(expected)}, but holds {sorted(tensors)}"
    for name, (dtypes, rank) in expected.items():
        tensor = tensors[name]
        if tensor.dtype not in dtypes or tensor.dim() != rank:
            return f"has a tensor '{name}' of {tensor.dtype} and shape {tuple(tensor.shape)}"
    for name in encoding.IMAGES:
        if any(len(tensors[key]) != len(tensors[name]) for key in scale_names(name) if key in tensors):
            return f"must hold a scale and a minimum for each image of '{name}'"
    return None


def reading_problem(encoding: Encoding) -> str | None:
    """The first thing because of which no reader could open a file of an encoding, or None."""
    tensors, said = encoding.tensors(), f"the encoding '{encoding.NAME}'"
    if encoding.NAME in {ours.NAME for ours in ENCODINGS} and not isinstance(encoding, ENCODINGS):
        return f"{said} has the name of one of PRISM's. Choose another NAME"
    if "labels" in tensors:
        return f"{said} has a tensor 'labels', which every set has itself. Choose another name"
    problem = tensor_problem(type(encoding), {**tensors, "labels": torch.zeros(1, dtype=torch.int32)})
    return problem and f"{said} {problem}"
