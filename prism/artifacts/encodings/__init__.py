"""Encodings: the tensors that a condensed set stores, what is wrong with them, and the clips they stand for.

Each encoding knows the tensors of its file (`docs/formats.md`) and nothing of the set around them: labels,
classes and metadata are the set's.
"""

import torch
from torch import Tensor

from prism.artifacts.encodings import h264
from prism.artifacts.encodings.coded import Coded
from prism.artifacts.encodings.encoding import Encoding
from prism.artifacts.encodings.images import DTYPES, Encoded, scale_names
from prism.artifacts.encodings.sparse import H264Encoding, KeyFrameEncoding
from prism.artifacts.encodings.static_dynamic import StaticDynamicEncoding

__all__ = [
    "DTYPES",
    "ENCODINGS",
    "Coded",
    "Encoded",
    "Encoding",
    "H264Encoding",
    "KeyFrameEncoding",
    "StaticDynamicEncoding",
    "keyframe_encoding",
    "require_encoder",
    "tensor_problem",
]

ENCODINGS: dict[str, type[Encoding]] = {
    encoding.NAME: encoding for encoding in (KeyFrameEncoding, StaticDynamicEncoding, H264Encoding)
}


def require_encoder(storage: str) -> None:
    """Refuse to begin what cannot be stored at its end.

    Raises:
        ConfigError: this installation has no encoder for this storage.
    """
    if storage not in DTYPES:
        h264.require_encoder()


def keyframe_encoding(
    frames: Tensor, mask: Tensor, storage: str, quality: int, scale: int = 1
) -> KeyFrameEncoding:
    """The key-frames of dense frames, in a number format or compressed.

    Args:
        frames: (V, T, C, H, W) float pixels in units of [0, 1] (they may exceed it).
        mask: (V, T) bool, True at key-frames.
        storage: a key of `DTYPES`, or `h264`.
        quality: in 0..100, for H.264.
        scale: how many times as high and wide as these frames the clips are.

    Raises:
        ConfigError: this installation has no encoder for this storage.
    """
    if storage in DTYPES:
        return KeyFrameEncoding.encode(frames, mask, storage, scale)
    return H264Encoding.compress(frames, mask, quality, scale)


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
