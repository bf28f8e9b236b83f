"""A folder of results as a user would have it, made without training: a store, sets, results."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from conftest import write_store

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings.sparse import Float32
from prism.artifacts.keyframes import evenly_spread
from prism.artifacts.results import TASK, Data, NetworkRun, Result, Subject, metrics_of
from prism.artifacts.store import ClipStore

HOSTILE = "<script>window.hurt=1</script>"
HOSTILE_NAMES = sorted(
    [
        HOSTILE,
        '"><img src=x onerror="window.hurt=1">',
        "</style></title><script src=https://example.com/x.js></script>",
        "$\\frac{ {{ 7*7 }} {% raw %}",
        "_ \x1b[31m\u202e\r\n\x00",
        "Übung 動き",
    ]
)


def load(paths: list[Path]) -> list[Result]:
    return [Result.load(path) for path in paths]


@dataclass
class Exhibit:
    """A folder with a store and the results that were scored on it."""

    folder: Path
    store: ClipStore

    @classmethod
    def build(cls, folder: Path, classes: list[str], size: int = 16) -> "Exhibit":
        """A store of random pixels in `folder`/store."""
        return cls(folder, write_store(folder / "store", classes=classes, num_frames=8, size=size))

    def condensed(self, name: str, keyframes: int = 3, spread: float = 0.4) -> Path:
        """A set of noise."""
        num_videos = len(self.store.classes)
        height, width = self.store.size
        generator = torch.Generator().manual_seed(num_videos)
        frames = 0.5 + spread * torch.randn(num_videos, 8, 3, height, width, generator=generator)
        made = CondensedSet(
            Float32().with_frames(frames, evenly_spread(num_videos, 8, keyframes)),
            torch.arange(num_videos),
            classes=self.store.classes,
            normalisation=self.store.normalisation,
            flip=True,
            source={"method": "prism", "store": self.store.fingerprint},
        )
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        made.save(path)
        return path

    def of_set(self, path: Path, label: str = "PRISM", **changes: Any) -> Path:
        """The result of a condensed set."""
        made = CondensedSet.load(path)
        counts = (len(made), made.num_keyframes, path.stat().st_size, made.float32_bytes)
        place, about = str(path.relative_to(self.folder)), ({"vpc": 1, "seed": 0}, made.fingerprint, len(made))
        return self.save(Subject("condensed", place, "prism", *counts, *about), label, **changes)

    def of_store(self, method: str, clips: int, **changes: Any) -> Path:
        """The result of real clips: `full` or `subset`."""
        num_bytes = clips * self.store.clip_bytes
        about = 4 * num_bytes, {}, self.store.fingerprint, clips
        subject = Subject("store", "store", method, clips, clips * 8, num_bytes, *about)
        return self.save(subject, method, **changes)

    def save(self, subject: Subject, label: str, **changes: Any) -> Path:
        """Write a result.

        `changes` replace its protocol, split, config, provenance, shares of right answers, or the seed of
        the first of its networks.
        """
        first = changes.pop("first_seed", 0)
        shares = changes.pop("shares", (0.4, 0.5, 0.6))
        split, num_classes = changes.pop("split", "test"), len(self.store.classes)
        num_bytes = 4 * len(self.store.positions("train")) * self.store.clip_bytes
        metrics = metrics_of(num_classes)
        chance = {metric: 1 / num_classes + k / 100 for k, metric in enumerate(metrics)}
        data = Data("store", self.store.fingerprint, split, 12, num_classes, chance, num_bytes, num_classes)
        provenance = {"command": "prism evaluate", "commit": "abc", "host": "secret-host", "processor": "a cpu"}
        fields: dict[str, Any] = {
            "task": TASK,
            "protocol": "clean",
            "config": {"model": "convnet3d", "width": 64, "epochs": 500, "seed": 0},
            "provenance": provenance,
        }
        lead, *others = metrics
        scores = [{lead: share} | dict.fromkeys(others, 0.9) for share in shares]
        runs = tuple(NetworkRun(seed, some, 0.1, 2.0) for seed, some in enumerate(scores, first))
        path = self.folder / f"result{len(list(self.folder.glob('result*.json')))}.json"
        Result(label=label, subject=subject, data=data, runs=runs, file=path, **{**fields, **changes}).save(path)
        return path

    def everything(self) -> list[Path]:
        """Results of a set, of a random subset and of all clips."""
        made = self.condensed("set.safetensors")
        classes = len(self.store.classes)
        return [
            self.of_set(made),
            self.of_store("subset", classes, shares=(0.2, 0.3, 0.4)),
            self.of_store("full", 4 * classes, shares=(0.8, 0.9, 1.0)),
        ]
