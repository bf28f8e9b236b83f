"""Encodings: the tensors that a condensed set stores, what is wrong with them, and the clips they stand for.

Each encoding knows the tensors of its file (`docs/formats.md`) and nothing of the set around them: labels,
classes and metadata are the set's.
"""

import torch
from torch import Tensor

from prism.artifacts.encodings.codecs import CODECS, require_encoder
from prism.artifacts.encodings.coded import Coded
from prism.artifacts.encodings.encoding import Encoding
from prism.artifacts.encodings.images import DTYPES, Encoded, scale_names
from prism.artifacts.encodings.sparse import (
    AV1Encoding,
    CodedEncoding,
    H264Encoding,
    KeyFrameEncoding,
    WebPEncoding,
)
from prism.artifacts.encodings.static_dynamic import StaticDynamicEncoding

__all__ = [
    "CODECS",
    "DTYPES",
    "ENCODINGS",
    "Coded",
    "CodedEncoding",
    "Encoded",
    "Encoding",
    "KeyFrameEncoding",
    "StaticDynamicEncoding",
    "keyframe_encoding",
    "require_encoder",
    "tensor_problem",
]

CODED: dict[str, type[CodedEncoding]] = {
    encoding.NAME: encoding for encoding in (WebPEncoding, H264Encoding, AV1Encoding)
}

ENCODINGS: dict[str, type[Encoding]] = {
    KeyFrameEncoding.NAME: KeyFrameEncoding,
    StaticDynamicEncoding.NAME: StaticDynamicEncoding,
    **CODED,
}


def keyframe_encoding(
    frames: Tensor, mask: Tensor, storage: str, quality: int, scale: int = 1
) -> KeyFrameEncoding:
    """The key-frames of dense frames, in a number format or compressed.

    Args:
        frames: (V, T, C, H, W) float pixels in units of [0, 1] (they may exceed it).
        mask: (V, T) bool, True at key-frames.
        storage: a key of `DTYPES` or of `CODECS`.
        quality: in 0..100, for a codec.
        scale: how many times as high and wide as these frames the clips are.

    Raises:
        ConfigError: this installation has no encoder for this storage.
    """
    if storage in CODECS:
        return CODED[storage].compress(frames, mask, quality, scale)
    return KeyFrameEncoding.encode(frames, mask, storage, scale)


def tensor_problem(encoding: type[Encoding], tensors: dict[str, Tensor]) -> str | None:
    """What is wrong with the names, number formats and ranks of a file's tensors, or None."""
    expected = {name: (set(DTYPES.values()), rank) for name, rank in encoding.IMAGES.items()}
    expected |= {name: ({dtype}, rank) for name, (dtype, rank) in encoding.OTHERS.items()}
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
