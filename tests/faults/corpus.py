"""Named bad files: each made from a good one, with what reads it and the sentence that it must produce."""

import csv
import json
import os
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from conftest import write_store
from exhibits import Exhibit

from prism.artifacts.clips import Normalisation
from prism.artifacts.condensed import CondensedSet, _digest
from prism.artifacts.encodings.sparse import H264
from prism.artifacts.info import describe
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.artifacts.telemetry import Telemetry
from prism.condensation.checkpoint import Checkpoint
from prism.ingestion.options import IngestConfig
from prism.ingestion.plan import make_plan
from prism.ingestion.splits import list_videos
from prism.machine.files import file_sha256
from prism.recipes import read_recipe

Spoil = Callable[[Path], object]
SOURCE = {"config": {"lr": 1.0}, "store": "0" * 64}
NESTED = "[" * 100_000


@dataclass(frozen=True)
class Kind:
    """A kind of file: how a good one is made at a path, and how it is read."""

    make: Callable[[Path], object]
    read: Callable[[Path], object]
    name: str = "given"


def make_set(path: Path) -> None:
    made = Exhibit.build(path.parent / "beside", ["left", "right"]).condensed("set")
    shutil.copy(made, path)


def make_coded(path: Path) -> None:
    """A set of two videos, compressed."""
    made = CondensedSet(
        H264().with_frames(
            torch.linspace(0, 1, 2 * 2 * 3 * 18 * 20).view(2, 2, 3, 18, 20), torch.ones(2, 2, dtype=torch.bool)
        ),
        torch.tensor([0, 1]),
        classes=("left", "right"),
        normalisation=Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
        flip=True,
    )
    made.save(path)


def render(path: Path) -> torch.Tensor:
    return CondensedSet.load(path).render()


def make_result(path: Path) -> None:
    exhibit = Exhibit.build(path.parent / "beside", ["left", "right"])
    shutil.copy(exhibit.of_set(exhibit.condensed("set")), path)


def make_telemetry(path: Path) -> None:
    shutil.copy(
        Exhibit.build(path.parent / "beside", ["a", "b"]).condensed("set").with_name("set.telemetry.jsonl"), path
    )


def make_checkpoint(path: Path) -> None:
    Checkpoint(3, SOURCE, 100, 1.5, {"frames": torch.zeros(2, 3)}).save(path)


def make_list(path: Path) -> None:
    path.write_text("path,label,split\na.mp4,jump,train\nb.mp4,walk,test\n")
    for name in ("a.mp4", "b.mp4"):
        path.with_name(name).touch()


UCF = {
    "classInd.txt": "1 Archery\n2 Biking\n",
    "trainlist01.txt": "Archery/v_a_g01_c01.avi 1\nBiking/v_b_g01_c01.avi 2\n",
    "testlist01.txt": "Archery/v_a_g02_c01.avi\n",
}


def make_ucf(path: Path) -> None:
    for name, text in UCF.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    for video in ("Archery/v_a_g01_c01.avi", "Biking/v_b_g01_c01.avi"):
        (path / video).parent.mkdir()
        (path / video).touch()


def make_hmdb(path: Path) -> None:
    (path / "clap").mkdir(parents=True)
    (path / "clap/a.avi").touch()
    (path / "clap_test_split1.txt").write_text("a.avi 1\n")


def make_folder(path: Path) -> None:
    for video in ("jump/a.mp4", "walk/b.mp4"):
        (path / video).parent.mkdir(parents=True)
        (path / video).touch()
    (path / "prism.json").write_text('{"flip": true}')


KINDS = {
    "set": Kind(make_set, CondensedSet.load),
    "h264": Kind(make_coded, render),
    "store": Kind(lambda path: write_store(path, num_frames=2, size=4), ClipStore.open),
    "result": Kind(make_result, Result.load),
    "telemetry": Kind(make_telemetry, Telemetry.load),
    "checkpoint": Kind(make_checkpoint, lambda path: Checkpoint.load(path, SOURCE)),
    "recipe": Kind(lambda path: path.write_text("[condense]\nlr = 2.0\n"), read_recipe),
    "list": Kind(make_list, lambda path: list_videos(path, IngestConfig(layout="csv")), "given.csv"),
    "ucf101": Kind(make_ucf, lambda path: list_videos(path, IngestConfig(layout="ucf101"))),
    "hmdb51": Kind(make_hmdb, lambda path: list_videos(path, IngestConfig(layout="hmdb51"))),
    "folder": Kind(make_folder, lambda path: make_plan(path, IngestConfig(val_fraction=0, test_fraction=0))),
    "anything": Kind(make_set, describe),
}


# Ways to spoil a file


def text(content: str) -> Spoil:
    return lambda path: path.write_bytes(content.encode("utf-8", "surrogatepass"))


def data(content: bytes) -> Spoil:
    return lambda path: path.write_bytes(content)


def cut(num_bytes: int) -> Spoil:
    return lambda path: path.write_bytes(path.read_bytes()[:-num_bytes])


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def gone(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def pipe(path: Path) -> None:
    gone(path)
    os.mkfifo(path)


def device(path: Path) -> None:
    gone(path)
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    gone(path)
    path.mkdir()


def inside(name: str, spoil: Spoil) -> Spoil:
    return lambda path: spoil(path / name)


def edit(**changes: Any) -> Spoil:
    """Replace values of a JSON file, `a__b` inside `a`; None deletes."""

    def spoil(path: Path) -> None:
        content = json.loads(path.read_text())
        for place, value in changes.items():
            *parents, last = place.split("__")
            at = content
            for parent in parents:
                at = at[int(parent) if parent.isdigit() else parent]
            at[last] = value
            if value is None:
                del at[last]
        path.write_text(json.dumps(content))

    return spoil


def signed_clips(**changes: str) -> Spoil:
    """Replace cells in the first row of a store's clips.csv, and sign it."""

    def spoil(path: Path) -> None:
        rows = list(csv.DictReader((path / "clips.csv").open(newline="")))
        rows[0].update(changes)
        with (path / "clips.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        _sign(path)

    return spoil


def _sign(path: Path) -> None:
    content = json.loads((path / "store.json").read_text())
    content["sha256"]["clips.csv"] = file_sha256(path / "clips.csv")
    (path / "store.json").write_text(json.dumps(content))


def metadata(change: Callable[[dict[str, Any]], object] | None = None, raw: str | None = None) -> Spoil:
    """Change the PRISM metadata of a safetensors file, or replace it by other text."""

    def spoil(path: Path) -> None:
        with safetensors.safe_open(path, framework="pt") as file:
            content = json.loads(file.metadata()["prism"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if change:
            change(content)
        path.write_bytes(
            safetensors.torch.save(tensors, {"prism": raw if raw is not None else json.dumps(content)})
        )

    return spoil


def without_tensor(name: str) -> Spoil:
    def spoil(path: Path) -> None:
        with safetensors.safe_open(path, framework="pt") as file:
            kept, meta = {k: file.get_tensor(k) for k in file.keys() if k != name}, file.metadata()  # noqa: SIM118
        path.write_bytes(safetensors.torch.save(kept, meta))

    return spoil


def signed_set(**changes: Any) -> Spoil:
    """Replace tensors or metadata of a set, and sign it; a function makes the new value of the old one."""

    def spoil(path: Path) -> None:
        with safetensors.safe_open(path, framework="pt") as file:
            content = json.loads(file.metadata()["prism"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        for key, value in changes.items():
            into = tensors if key in tensors else content
            into[key] = value(into[key]) if callable(value) else value
        del content["sha256"]
        content["sha256"] = _digest(content, tensors)
        path.write_bytes(safetensors.torch.save(tensors, {"prism": json.dumps(content)}))

    return spoil


def secret(name: str) -> Spoil:
    """A video outside the source, and a link inside that leads to it."""

    def spoil(path: Path) -> None:
        (path.parent / "secret.mp4").touch()
        (path / name).unlink(missing_ok=True)
        (path / name).symlink_to(path.parent / "secret.mp4")

    return spoil


def changed(**values: Any) -> Spoil:
    return metadata(lambda content: content.update(values))


CODED: dict[str, Spoil] = {
    "truncated": cut(10),
    "with sizes that do not add up": signed_set(packet_sizes=lambda sizes: sizes + 1),
    "with sizes below zero": signed_set(packet_sizes=lambda sizes: -sizes),
    "with packets of zeros": signed_set(packets=torch.zeros_like),
    "with packets of ones": signed_set(packets=lambda packets: packets | 255),
    "with packets that begin too late": signed_set(packets=lambda packets: packets.roll(-1)),
    "of a smaller size than it says": signed_set(size=[36, 20]),
    "of a larger size than it says": signed_set(size=[8, 8]),
    "of a size that nothing has": signed_set(size=[0, 20]),
    "of a size beyond memory": signed_set(size=[10**6, 10**6]),
    "with a scale that is infinite": signed_set(scale=lambda scale: scale / 0),
}

SPOILED: dict[str, dict[str, Spoil]] = {
    "h264": CODED,
    "set": {
        "missing": gone,
        "empty": data(b""),
        "a folder": folder,
        "a pipe": pipe,
        "a device": device,
        "a pickle": data(b"\x80\x04cos\nsystem\n."),
        "truncated": cut(10),
        "one bit flipped": flip_bit,
        "a header of 2^63 bytes": data((2**63).to_bytes(8, "little") + b"{}"),
        "a header of nested lists": data(len(NESTED).to_bytes(8, "little") + NESTED.encode()),
        "metadata that is no JSON": metadata(raw="{"),
        "metadata nested deeply": metadata(raw=NESTED),
        "metadata with NaN": metadata(raw='{"format": NaN}'),
        "of a newer version": changed(version=2),
        "of an unknown encoding": changed(encoding="pickle"),
        "with an edited class": changed(classes=["<script>alert(1)</script>", "right"]),
        "without labels": without_tensor("labels"),
    },
    "store": {
        "missing": gone,
        "a file": lambda path: (gone(path), path.touch()),
        "an empty folder": folder,
        "without frames": inside("frames.u8", gone),
        "with truncated frames": inside("frames.u8", cut(1)),
        "with a bit flipped": inside("frames.u8", flip_bit),
        "with frames that are a pipe": inside("frames.u8", pipe),
        "with an edited index": inside("clips.csv", flip_bit),
        "with a header that is a list": inside("store.json", text("[]")),
        "with a header that is a device": inside("store.json", device),
        "with a header that is nested": inside("store.json", text(NESTED)),
        "with a length of 10^9": inside("store.json", edit(num_frames=10**9)),
        "with classes that repeat": inside("store.json", edit(classes=["a", "a"])),
        "of a newer version": inside("store.json", edit(version=9)),
        "with a start that is text": signed_clips(start="x"),
        "with a foreign label": signed_clips(label="\x1b[2J"),
    },
    "result": {
        "missing": gone,
        "a pipe": pipe,
        "a device": device,
        "binary": data(b"\xff\x00"),
        "nested deeply": text(NESTED),
        "foreign": text('{"accuracy": 0.99}'),
        "of a newer version": edit(version=7),
        "with a score above one": edit(runs__0__scores__top1=99.5),
        "with a score that is text": edit(runs__0__scores__top1="0.5"),
        "without runs": edit(runs=[]),
        "of an unknown task": edit(task="captioning"),
        "without a class": edit(data__num_classes=0),
        "with a number of clips of 400 digits": edit(data__num_clips=int("9" * 400)),
        "with a run that took less than no time": edit(runs__0__seconds=-1.0),
        "with half a character": text('{"format": "prism-result", "label": "\\ud800"}'),
    },
    "telemetry": {
        "missing": gone,
        "a pipe": pipe,
        "binary": data(b"\xff\xfe"),
        "a line that is a number": text("3\n"),
        "a line that is nested": text(NESTED + "\n"),
        "a line that is no JSON": text("{\n{}\n"),
        "a number that is none": text('{"loss": NaN}\n'),
    },
    "checkpoint": {
        "empty": data(b""),
        "truncated": cut(3),
        "a folder": folder,
        "of another version": changed(version=2),
        "with a negative iteration": changed(iteration=-1),
        "with an iteration of 2^63": changed(iteration=2**63),
        "with a length that is text": changed(telemetry_bytes="1"),
        "without a source": metadata(lambda content: content.pop("source")),
        "with seconds of 400 digits": changed(seconds=int("9" * 400)),
        "of another run": changed(source={"config": {"lr": 3.0}, "store": "0" * 64}),
    },
    "recipe": {
        "missing": gone,
        "a folder": folder,
        "a pipe": pipe,
        "binary": data(b"\xff"),
        "no TOML": text("lr = = 2\n"),
        "nested deeply": text("a = " + NESTED),
        "an unknown table": text("[condence]\n"),
        "an unknown key": text("[condense]\nlearning = 1\n"),
        "a value out of range": text("[condense]\nmomentum = 1.5\n"),
        "a value of the wrong type": text('[condense]\nlr = "fast"\n'),
        "a count beyond 64 bits": text(f"[condense]\nbatch_real = {10**30}\n"),
        "a rate that is no number": text("[condense]\nlr = nan\n"),
        "that extends itself": lambda path: path.write_text(f'extends = "{path.name}"\n'),
        "that extends a device": text('extends = "/dev/zero"\n'),
    },
    "list": {
        "empty": data(b""),
        "a pipe": pipe,
        "binary": data(b"\xff\xfe\x00"),
        "without a column": text("path,split\na.mp4,train\n"),
        "with a path above": text("path,label,split\n../../etc/passwd,jump,train\n"),
        "with an absolute path": text("path,label,split\n/etc/passwd,jump,train\n"),
        "with a path that leaves and returns": text("path,label,split\nx/../../a.mp4,jump,train\n"),
        "with a path twice": text("path,label,split\na.mp4,jump,train\nb/../a.mp4,jump,test\n"),
        "with a split in one of two lines": text("path,label,split\na.mp4,jump,train\nb.mp4,jump,\n"),
        "with an unknown split": text("path,label,split\na.mp4,jump,\x1b[31mtrain\n"),
        "with an empty label": text("path,label,split\na.mp4,,train\n"),
        "with a zero byte": text("path,label,split\na\0.mp4,jump,train\n"),
        "with a field that is too long": text("path,label,split\n" + "a" * 200_000 + ",jump,train\n"),
        "with a lone carriage return": data(b"path,la\rbel,split\n"),
    },
    "ucf101": {
        "without a class list": inside("classInd.txt", gone),
        "with a class list that is a pipe": inside("classInd.txt", pipe),
        "with a class number of 5000 digits": inside("classInd.txt", text("9" * 5000 + " Archery\n2 Biking\n")),
        "with a video number of 5000 digits": inside("trainlist01.txt", text("Archery/v_a.avi " + "9" * 5000)),
        "with a path above": inside("trainlist01.txt", text("../v_a_g01_c01.avi 1\n")),
        "with an absolute path": inside("trainlist01.txt", text("/etc/passwd.avi 1\n")),
        "with an unknown class": inside("testlist01.txt", text("<script>/v_a_g02_c01.avi\n")),
        "with a video twice": inside("testlist01.txt", text("Archery/v_a_g01_c01.avi\n")),
        "that is binary": inside("testlist01.txt", data(b"\xff\n")),
    },
    "hmdb51": {
        "that uses no video": inside("clap_test_split1.txt", text("a.avi 0\n")),
        "with a path above": inside("clap_test_split1.txt", text("../a.avi 1\n")),
    },
    "folder": {
        "missing": gone,
        "empty": folder,
        "with one class": inside("walk", gone),
        "with a flip rule that is a pipe": inside("prism.json", pipe),
        "with a flip rule that is a device": inside("prism.json", device),
        "with a flip rule of another kind": inside("prism.json", text('{"flip": "no"}')),
        "with nothing but a link that leaves it": lambda path: (
            gone(path / "walk"),
            secret("jump/a.mp4")(path),
        ),
    },
    "anything": {
        "missing": gone,
        "a pipe": pipe,
        "a device": device,
        "text": text("hello\n"),
        "a list": text("[]"),
        "an empty folder": folder,
    },
}


SENTENCES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8")
)
"""What each of them must produce."""
