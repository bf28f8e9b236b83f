"""The examples of docs/uses.md run on small data, and their tables say what they have measured."""

import json
import re
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path
from statistics import fmean

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
    quiet = {"device": "cpu", "progress": False}
    prism.condense(store, output=folder / "condensed.safetensors", width=2, batch_real=2, iterations=2, **quiet)
    for seed in range(2):
        prism.select(store, output=folder / f"takes-{seed}.safetensors", takes=NUM_TAKES, seed=seed, **quiet)
    return store


def table(module, monkeypatch, capsys, *arguments):
    """The cells of each row that an example prints, and writes to a file too, by the first of them."""
    output = arguments[0].parent / "scores.json"
    monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments), "--output", str(output)])
    module.main()
    lines, written = capsys.readouterr().out.splitlines()[2:], json.loads(output.read_text())["rows"]
    for line, row in zip(lines, written, strict=True):
        assert re.match(rf"\| {re.escape(row['name'])} \|.*\| {fmean(row['accuracy']):.1f} ±", line)
    return {name: cells for _, name, *cells, _ in (re.split(r" *\| *", line) for line in lines)}


def test_a_memory_counts_what_lies_on_disk_and_pixels_stay_within_their_bytes(store, monkeypatch, capsys):
    monkeypatch.setattr(class_incremental, "learn", lambda *_: [[50.0]])
    condensed, takes = (store.path.parent / name for name in ("condensed.safetensors", "takes-{seed}.safetensors"))
    sizes = {path: Path(str(path).format(seed=1)).stat().st_size for path in (condensed, takes)}
    whole = store.clip_bytes
    pixels = {2 * whole + 1: (2 * whole, 2), 10 * whole: (3 * whole, 3), 24 * 17**2 - 1: (24 * 16**2, 1)}
    given = store.path, condensed, takes, "--pixels", *pixels, "--seeds", 2
    kept = {name: (*cells[:2],) for name, cells in table(class_incremental, monkeypatch, capsys, *given).items()}
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
    pytest.importorskip("transformers")
    from examples import finetune_transformers

    for seed in range(2):
        path = store.path.parent / f"takes-{seed}.safetensors"
        prism.export(path, path.parent / f"tensors-{seed}", to="tensors")
    given = path.parent / "tensors-{seed}", "--seeds", 2, "--steps", 2
    rows = table(finetune_transformers, monkeypatch, capsys, store.path, *given)
    assert [cells[0] for cells in rows.values()] == ["18", "18"]
    assert all(re.fullmatch(r"\d+\.\d ± \d+\.\d \(2\)", cells[1]) for cells in rows.values())
