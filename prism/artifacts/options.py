"""Options that concern artifacts: the splits of a store and the storage of a set."""

from typing import Literal

from prism.parts import Parts

Split = Literal["train", "val", "test"]
StoreSplit = Literal[Split, "test-random"]

STORAGES = Parts(
    "storage",
    {
        "float32": "prism.artifacts.encodings.storages:Float32",
        "float16": "prism.artifacts.encodings.storages:Float16",
        "uint8": "prism.artifacts.encodings.storages:UInt8",
        "h264": "prism.artifacts.encodings.storages:H264",
    },
    required=("encode",),
)
"""How the images of a set are stored."""
