"""Artifacts: the files that PRISM writes and reads, and the names of the storages of a set."""

from prism.parts import Parts

STORAGES = Parts(
    "storage",
    "prism.artifacts.encodings:Encoding",
    {
        "float32": "prism.artifacts.encodings.sparse:Float32",
        "float16": "prism.artifacts.encodings.sparse:Float16",
        "uint8": "prism.artifacts.encodings.sparse:UInt8",
        "yuv420": "prism.artifacts.encodings.sparse:Yuv420",
        "h264": "prism.artifacts.encodings.sparse:H264",
    },
)
