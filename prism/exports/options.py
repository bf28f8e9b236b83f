"""The options of `prism export`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from prism.config import Group, Options, at_least, between
from prism.parts import Parts

FORMATS = Parts(
    "export format",
    {
        "videofolder": "prism.exports.videos:VideoFolder",
        "webdataset": "prism.exports.videos:WebDataset",
        "tensors": "prism.exports.videos:Tensors",
        "gif": "prism.exports.videos:Gif",
        "mp4": "prism.exports.videos:OneVideo",
    },
    required=("write", "check"),
)


@dataclass(frozen=True)
class ExportConfig(Options, section="export"):
    """Options of `prism export`."""

    to: Annotated[str, Group("The export"), FORMATS] = "videofolder"
    """`videofolder`: train/<class>/<id>.mp4, metadata.csv and a list for mmaction2. `webdataset`: tar shards of \
<key>.mp4 and <key>.cls. `tensors`: one safetensors file of all clips, to the last bit. `gif`: a sheet on which \
all videos play. `mp4`: one video."""
    fps: Annotated[float, between(0.1, 240), Group("Videos")] = 8.0
    """Frames per second at which the videos play, at most 50 for gif; a set has no rate of its own."""
    quality: Annotated[int, between(0, 100)] = 65
    """Quality of mp4 videos; the constant rate factor is 51 − 0.51·quality. The streams of a set in H.264 are \
copied, whatever it is."""
    lossless: bool = False
    """Keep every 8-bit pixel, in H.264 of red, green and blue: decoders built on FFmpeg read it, browsers may \
not."""
    shard_videos: Annotated[int, at_least(1)] = 1000
    """webdataset: videos of a tar file, at most."""
    video: Annotated[int, at_least(0)] = 0
    """mp4: which video of the set, from 0 on."""

    def relations(self) -> Iterator[tuple[str, bool, str]]:
        """An option that the format does not have must be left alone."""
        known = FORMATS.options_of(FORMATS.make(self.to, self))
        defaults = ExportConfig.__dataclass_fields__
        for name in ("fps", "quality", "lossless", "shard_videos", "video"):
            fits = name in known or getattr(self, name) == defaults[name].default
            yield name, fits, f"left out with the format {FORMATS.name_of(self.to)}"
