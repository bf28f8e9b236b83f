"""All clips of a set as one safetensors file, to the last bit."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import ClassVar

import torch

from prism.artifacts.condensed import CondensedSet
from prism.exports.format import Format, Shown
from prism.machine.text_io import canonical_json


@dataclass(frozen=True)
class Tensors(Format):
    """`clips.safetensors`: `clips` (V, T, 3, H, W) float32 in units of [0, 1], and `labels` (V,) int64."""

    reading: ClassVar[str] = """from safetensors.torch import load_file

tensors = load_file("FOLDER/clips.safetensors")
print(tensors["clips"].shape, tensors["labels"])"""

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        """Write clip by clip: dense clips may be many times as large as the set, and need not fit into memory."""
        height, width = condensed.size
        shape = [len(condensed), condensed.num_frames, 3, height, width]
        end = 4 * prod(shape)
        held = {
            "classes": list(condensed.classes),
            "mean": list(condensed.normalisation.mean),
            "std": list(condensed.normalisation.std),
            "flip": condensed.flip,
        }
        header = canonical_json(
            {
                "__metadata__": {"prism": canonical_json(held)},
                "clips": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]},
                "labels": {"dtype": "I64", "shape": shape[:1], "data_offsets": [end, end + 8 * shape[0]]},
            }
        ).encode()
        # The tensors begin at a multiple of eight bytes, as the library writes them.
        header += b" " * (-len(header) % 8)
        with (path / "clips.safetensors").open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            for video in range(len(condensed)):
                clip = condensed.render(torch.tensor([video]))[0]
                file.write(clip.contiguous().numpy().data)
                yield clip, clip
            file.write(condensed.labels.contiguous().numpy().data)
            file.flush()
            os.fsync(file.fileno())
