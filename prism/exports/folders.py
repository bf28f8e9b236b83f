"""Folders of mp4 videos: class folders with lists of them, and shards of WebDataset."""

import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import ClassVar

from prism.artifacts.condensed import CondensedSet
from prism.exports.format import Shown
from prism.exports.mp4 import Mp4s
from prism.machine.files import sync_folder, write_synced
from prism.machine.text_io import csv_text

LONGEST_NAME = 100
"""Bytes of a folder's name, without the number that may be added; file systems take 255."""


@dataclass(frozen=True)
class VideoFolder(Mp4s):
    """`train/<class>/<id>.mp4`, and lists of the videos for tools that want one."""

    data_files: ClassVar[tuple[str, ...]] = ("train/*/*.mp4", "metadata.csv")
    reading: ClassVar[str] = """from datasets import load_dataset

videos = load_dataset("FOLDER", split="train")
print(videos[0]["label"], videos[0]["video"])"""

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        """Write the videos, then `metadata.csv` of Hugging Face, and `train_list.txt` of mmaction2."""
        folders, rows = folder_names(condensed.classes), []
        for folder in folders:
            (path / "train" / folder).mkdir(parents=True)
        for video, label in enumerate(condensed.labels.tolist()):
            data, shown = self.mp4(condensed, video)
            name = f"train/{folders[label]}/{video:06}.mp4"
            write_synced(path / name, data)
            rows.append((name, label))
            yield shown
        for folder in folders:
            sync_folder(path / "train" / folder)
        sync_folder(path / "train")
        table = csv_text(("file_name", "label"), ((name, condensed.classes[label]) for name, label in rows))
        write_synced(path / "metadata.csv", table.encode())
        write_synced(path / "train_list.txt", "".join(f"{name} {label}\n" for name, label in rows).encode())


@dataclass(frozen=True)
class WebDataset(Mp4s):
    """Tar shards with `<key>.mp4` and `<key>.cls` of every video.

    Attributes:
        shard_videos: videos of a shard, at most.
    """

    data_files: ClassVar[tuple[str, ...]] = ("train-*.tar",)
    reading: ClassVar[str] = """import webdataset

videos = webdataset.WebDataset("FOLDER/train-000000.tar", shardshuffle=False).to_tuple("mp4", "cls")
for mp4, label in videos:
    print(len(mp4), int(label))"""

    shard_videos: int = 1000

    def program(self, num_videos: int) -> str:
        """Read every shard."""
        last = (num_videos - 1) // self.shard_videos
        return self.reading.replace("000000", f"{{000000..{last:06}}}") if last else self.reading

    def write(self, condensed: CondensedSet, path: Path) -> Iterator[Shown]:
        """Write `train-000000.tar`, `train-000001.tar`, …; labels are positions in `classes.txt`."""
        labels = condensed.labels.tolist()
        for start in range(0, len(labels), self.shard_videos):
            shard = io.BytesIO()
            with tarfile.open(fileobj=shard, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                for video, label in enumerate(labels[start : start + self.shard_videos], start):
                    data, shown = self.mp4(condensed, video)
                    _add(tar, f"{video:06}.mp4", data)
                    _add(tar, f"{video:06}.cls", str(label).encode())
                    yield shown
            write_synced(path / f"train-{start // self.shard_videos:06}.tar", shard.getvalue())


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    # Neither the clock nor the user is written.
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def folder_names(classes: tuple[str, ...]) -> list[str]:
    """A name for the folder of each class that every file system and every list takes, all different.

    What is no letter, digit, `-`, `_` or inner `.` becomes `_`; where two names are then the same, whatever their
    case, the label is added, or the first number above it that makes a new name.
    """
    names: list[str] = []
    taken = set[str]()
    for label, name in enumerate(classes):
        cut = re.sub(r"[^\w.-]", "_", name).encode()[:LONGEST_NAME].decode(errors="ignore")
        safe = cut.strip(".") or "_"
        candidates = chain([safe], (f"{safe}_{number}" for number in count(label)))
        names.append(next(name for name in candidates if name.casefold() not in taken))
        taken.add(names[-1].casefold())
    return names
