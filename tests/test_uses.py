"""The examples of docs/uses.md run on small data, and their tables say what they have measured."""

import json
import re
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import write_store

import prism
from examples import class_incremental

NUM_CLASSES, NUM_TAKES, CLIPS = 6, 3, {"train": 3, "val": 1, "test": 1}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Six classes of grey, with sets beside: condensed videos, and takes of two seeds."""
    folder, names = tmp_path_factory.mktemp("uses"), [f"grey{label}" for label in range(NUM_CLASSES)]
    greys = [40 * label + i for num in CLIPS.values() for label in range(NUM_CLASSES) for i in range(num)]
    frames = np.stack([np.full((8, 3, 48, 48), grey, np.uint8) for grey in greys])
    store = write_store(folder / "store", classes=names, frames=frames, **CLIPS)
    fast = {"width": 2, "batch_real": 2, "iterations": 2}
    prism.condense(store, output=folder / "condensed.safetensors", device="cpu", progress=False, **fast)
    for seed in range(2):
        path = folder / f"takes-{seed}.safetensors"
        prism.select(store, output=path, takes=NUM_TAKES, seed=seed, device="cpu", progress=False)
    return store


def table(module, monkeypatch, capsys, *arguments):
    """The cells of each row that an example prints, by the first of them."""
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
    module.main()
    rows = [re.findall(r"[^|]+", line) for line in capsys.readouterr().out.splitlines()[2:]]
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in rows}


def test_a_memory_counts_what_lies_on_disk_and_pixels_stay_within_their_bytes(store, monkeypatch, capsys):
    monkeypatch.setattr(class_incremental, "learn", lambda *_: [[50.0]])
    condensed, takes = (store.path.parent / name for name in ("condensed.safetensors", "takes-{seed}.safetensors"))
    sizes = {path: Path(str(path).format(seed=1)).stat().st_size for path in (condensed, takes)}
    whole, output = store.clip_bytes, store.path.parent / "memory.json"
    pixels = {2 * whole + 1: (2 * whole, 2), 10 * whole: (3 * whole, 3), 24 * 17**2 - 1: (24 * 16**2, 1)}
    given = store.path, condensed, takes, "--pixels", *pixels, "--seeds", 2, "--output", output
    kept = {name: (*cells[:2],) for name, cells in table(class_incremental, monkeypatch, capsys, *given).items()}
    scores = [(row["name"], *row["accuracy"]) for row in json.loads(output.read_text())["rows"]]
    assert scores == [(name, 50, 50) for name in kept]
    assert kept.pop("nothing") == kept.pop("all at once") == ("0", "0")
    assert kept.pop("every clip") == (f"{3 * whole:,}", "3")
    assert kept.pop(str(condensed)) == (f"{sizes[condensed] / NUM_CLASSES:,.0f}", "1")
    assert kept.pop(str(takes)) == (f"{sizes[takes] / NUM_CLASSES:,.0f}", f"{NUM_TAKES}")
    assert kept == {f"pixels {size}": (f"{its:,}", f"{clips}") for size, (its, clips) in pixels.items()}
    with pytest.raises(SystemExit):
        table(class_incremental, monkeypatch, capsys, store.path, "--seeds", 1)


def test_new_classes_are_shown_real_clips_and_earlier_ones_are_replayed_in_equal_shares(store):
    shown = {"new": Counter(), "old": Counter()}

    def recorded(side):
        video = torch.rand(store.num_frames, 3, *store.size)
        return class_incremental.Memory(0, 0, lambda label: shown[side].update([label]) or video)

    given, tasks = Namespace(store=store, split="test", steps=2), [[0, 5], [1, 4]]
    accuracies = class_incremental.learn(given, tasks, recorded("new"), recorded("old"))
    assert [len(row) for row in accuracies] == [1, 2]
    assert shown["new"][0] == shown["new"][5] == 20
    # Four steps of ten clips, two or three of each class.
    assert shown["old"].keys() == {0, 5}
    assert all(8 <= clips <= 12 for clips in (*shown["old"].values(), shown["new"][1], shown["new"][4]))
    class_incremental.learn(given, tasks, recorded("new"), None)
    assert shown["new"][0] == shown["new"][5] == 40
    assert sum(shown["old"].values()) + sum(shown["new"].values()) == 2 * 80


def test_replay_shows_any_take_and_any_kept_clip_of_the_asked_class(store):
    real = prism.load(store.path, output_format="TCHW", normalise=False)
    memories = [
        (class_incremental.of_all(real), 3),
        (class_incremental.of_set(store.path.parent / "takes-0.safetensors"), NUM_TAKES),
        (class_incremental.of_pixels(real, 2 * store.clip_bytes), 2),
        (class_incremental.of_pixels(real, store.clip_bytes // 4), 1),
    ]
    for memory, num in memories:
        shown = {round(255 * float(memory.video(4).mean()), 2) for _ in range(60)}
        assert len(shown) == num
        assert shown <= {160.0, 161.0, 162.0}
        assert memory.video(4).shape == (8, 3, 48, 48)


def test_a_transformer_learns_from_exports(store, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    finetune_transformers = pytest.importorskip("examples.finetune_transformers")
    folder = store.path.parent
    for seed in range(2):
        prism.export(folder / f"takes-{seed}.safetensors", folder / f"tensors-{seed}", to="tensors")
    given = folder / "tensors-{seed}", "--seeds", 2, "--steps", 2
    rows = table(finetune_transformers, monkeypatch, capsys, store.path, *given)
    assert [cells[0] for cells in rows.values()] == ["18", "18"]
    assert all(re.fullmatch(r"\d+\.\d ± \d+\.\d \(2\)", cells[1]) for cells in rows.values())
