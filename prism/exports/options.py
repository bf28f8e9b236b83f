"""The options of `prism export`."""

from dataclasses import dataclass
from typing import Annotated

from prism.config import Group, Options, at_least, between
from prism.parts import Parts

FORMATS = Parts(
    "export format",
    "prism.exports.videos:Format",
    {
        "videofolder": "prism.exports.videos:VideoFolder",
        "webdataset": "prism.exports.videos:WebDataset",
        "tensors": "prism.exports.videos:Tensors",
        "gif": "prism.exports.videos:Gif",
    },
)


@dataclass(frozen=True)
class ExportConfig(Options, section="export"):
    """Options of `prism export`."""

    to: Annotated[str, Group("The export"), FORMATS] = "videofolder"
    """`videofolder`: train/<class>/<id>.mp4 and metadata.jsonl. `webdataset`: tar shards of <key>.mp4 and \
<key>.cls. `tensors`: one file of all clips, to the last bit. `gif`: a sheet on which all videos play, \
or clips of a store."""
    result: str = ""
    """Result of `prism evaluate`, whose scores and settings are written to the folder's README.md."""
    fps: Annotated[float, between(0.1, 50), Group("Videos")] = 8.0
    """Frames per second at which the videos play; a set has no rate of its own."""
    clips: Annotated[int, at_least(1)] = 3
    """Clips of each class and split on the gif of a store."""
    quality: Annotated[int, between(0, 100)] = 65
    """Quality of mp4 videos; the constant rate factor is 51 − 0.51·quality."""
    lossless: bool = False
    """Keep every 8-bit pixel, as H.264 in RGB, which FFmpeg reads, but some browsers do not."""
