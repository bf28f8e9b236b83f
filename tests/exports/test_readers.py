"""What is exported is read back by the libraries that it is meant for: the same pixels, the same labels."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file
from settings import set_of

from prism.artifacts.clips import as_levels
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings.sparse import Float32
from prism.condensation.condense import condense
from prism.exports import videos
from prism.exports.export import export
from prism.exports.videos import decoded
from prism.ingestion.build import ingest
from prism.selection.select import select

CLASSES = ["None", "air drumming", "test"]
"""One that `datasets` would read as nothing in a CSV, one with a space, and one that it would take for a split."""


def smooth(num: int, num_frames: int = 6, size: tuple[int, int] = (32, 48)) -> np.ndarray:
    """(N, T, 3, H, W) uint8: a wave that moves, with colours of its own in every clip."""
    n, t, y, x = np.ogrid[:num, :num_frames, : size[0], : size[1]]
    waves = [np.sin((x + 2 * t) / (14 + c) + n) * np.cos(y / (17 - c) + n * c) for c in range(3)]
    return np.stack([(128 + 110 * wave).astype(np.uint8) for wave in waves], axis=2)


@pytest.fixture
def chosen(make_store) -> CondensedSet:
    """Two clips of each of three classes, exactly."""
    return select(waves(make_store), vpc=2)


def waves(make_store):
    return make_store(classes=CLASSES, train=3, val=0, test=0, size=(32, 48), num_frames=6, frames=smooth(9))


@pytest.fixture
def datasets(monkeypatch, tmp_path):
    """The library, without the network and with all that it keeps in the folder of the test."""
    for name, value in {"HF_HUB_OFFLINE": "1", "HF_HOME": tmp_path / "hf", "HF_DATASETS_CACHE": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    return pytest.importorskip("datasets")


def loss(condensed: CondensedSet, shown: list[torch.Tensor]) -> float:
    """Root of the mean squared error of decoded videos, in grey levels."""
    return 255 * float((torch.stack(shown) - condensed.render()).square().mean().sqrt())


def test_datasets_reads_a_video_folder_with_its_labels(chosen, datasets, tmp_path):
    export(chosen, tmp_path / "out")
    splits = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert list(splits) == ["train"]
    videos = splits["train"].cast_column("video", datasets.Video(decode=False))
    assert videos["label"] == [CLASSES[label] for label in chosen.labels]
    assert loss(chosen, [decoded(Path(row["path"]).read_bytes()) for row in videos["video"]]) < 4


def test_torchvision_and_fiftyone_find_a_folder_for_each_class(chosen, tmp_path):
    export(chosen, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out" / "train").iterdir()) == ["None", "air_drumming", "test"]
    paths = sorted((tmp_path / "out" / "train").rglob("*.mp4"), key=lambda path: path.stem)
    assert [path.parent.name.replace("_", " ") for path in paths] == [CLASSES[label] for label in chosen.labels]
    assert (tmp_path / "out" / "classes.txt").read_text().splitlines() == CLASSES


@pytest.mark.parametrize(("name", "num"), [("run slow", 0), ("run-slow", 1)])
def test_folders_in_another_order_than_the_classes_are_named(tmp_path, name, num, capsys):
    export(set_of(torch.zeros(2, 2, 3, 16, 16), classes=("run fast", name)), tmp_path / "out")
    assert capsys.readouterr().err.count("Caution: readers that number the folders by name") == num


def test_prism_itself_ingests_a_video_folder_with_its_flip_rule(make_store, tmp_path):
    store = make_store(train=4, val=0, test=0, size=48, num_frames=6, frames=smooth(8, size=(48, 48)), flip=False)
    chosen = select(store, vpc=4)
    export(chosen, tmp_path / "out")
    again = ingest(tmp_path / "out", tmp_path / "store", num_frames=6, size=48, workers=1, test_fraction=0.3)
    assert (again.flip, len(again)) == (False, 8)
    expected = chosen.render()[[int(Path(source.path).stem) for source in again.sources]]
    found = torch.cat([again.clips(split).frames for split in ("train", "val", "test")])
    assert float((found - 255 * expected).abs().mean()) < 4


def test_webdataset_reads_its_shards(chosen, tmp_path, monkeypatch):
    webdataset = pytest.importorskip("webdataset")
    monkeypatch.setattr(videos, "SHARD_VIDEOS", 4)
    export(chosen, tmp_path / "out", to="webdataset")
    shards = sorted(map(str, (tmp_path / "out").glob("*.tar")))
    assert len(shards) == 2
    samples = list(webdataset.WebDataset(shards, shardshuffle=False))
    assert [sample["__key__"] for sample in samples] == [f"{video:06}" for video in range(6)]
    assert [int(sample["cls"]) for sample in samples] == chosen.labels.tolist()
    assert loss(chosen, [decoded(sample["mp4"]) for sample in samples]) < 4


def test_datasets_reads_shards_too(chosen, datasets, tmp_path):
    export(chosen, tmp_path / "out", to="webdataset")
    videos = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert videos["cls"] == chosen.labels.tolist()


def test_safetensors_reads_all_clips_to_the_last_bit(chosen, tmp_path):
    export(chosen, tmp_path / "out", to="tensors")
    tensors = load_file(tmp_path / "out" / "clips.safetensors")
    assert torch.equal(tensors["clips"], chosen.render())
    assert torch.equal(tensors["labels"], chosen.labels)
    with safe_open(tmp_path / "out" / "clips.safetensors", framework="pt") as file:
        held = json.loads(file.metadata()["prism"])
    mean, std = list(chosen.normalisation.mean), list(chosen.normalisation.std)
    assert held == {"classes": CLASSES, "flip": True, "mean": mean, "std": std}


def test_a_video_that_stands_for_several_clips_shows_one_and_says_so(make_store, tmp_path, capsys):
    made = condense(make_store(), method="static-dynamic", iterations=0, width=2, device="cpu", progress=False)
    export(made, tmp_path / "out", to="tensors", progress=True)
    assert torch.equal(load_file(tmp_path / "out" / "clips.safetensors")["clips"], made.render())
    assert "Each video stands for several clips: one of each is exported." in capsys.readouterr().err


def played(path: Path) -> tuple[np.ndarray, list[int]]:
    """The frames of a sheet (T, H, W, 3), and when each of them ends, in milliseconds."""
    frames, ends = [], [0]
    with Image.open(path) as sheet:
        for time in range(sheet.n_frames):
            sheet.seek(time)
            frames.append(np.asarray(sheet.convert("RGB")).astype(int))
            ends.append(ends[-1] + sheet.info["duration"])
    return np.stack(frames), ends[1:]


@pytest.mark.parametrize("fps", [0.1, 24, 50])
def test_pillow_plays_a_sheet_of_all_videos_as_long_as_its_frame_rate_says(chosen, tmp_path, fps):
    export(chosen, tmp_path / "sheet.gif", to="gif", fps=fps)
    frames, ends = played(tmp_path / "sheet.gif")
    # Three columns of tiles twice as large as the videos: the last one is that of the last video.
    tile = frames[:, -4 - 64 : -4, -4 - 96 : -4]
    assert np.abs(tile - as_levels(chosen.render()[-1]).repeat(2, axis=1).repeat(2, axis=2)).mean() < 8
    assert ends == pytest.approx(1000 * np.arange(1, chosen.num_frames + 1) / fps, abs=5)


def test_the_palette_of_a_large_sheet_is_made_of_some_of_its_pixels(chosen, tmp_path, monkeypatch):
    monkeypatch.setattr(videos, "PALETTE_PIXELS", 5000)
    export(chosen, tmp_path / "sheet.gif", to="gif")
    frames, _ = played(tmp_path / "sheet.gif")
    assert frames[..., 0].size > 10 * 5000
    assert np.abs(frames - videos._sheet(chosen)).mean() < 8


@pytest.mark.parametrize("step", [20, 40, 50, 100, 200])
def test_the_palette_has_the_colours_of_every_column_of_a_large_sheet(make_store, tmp_path, monkeypatch, step):
    painted = np.full((3, 6, 3, 32, 48), 128, np.uint8)
    painted[..., 8:24, 11:17] = 255 * np.eye(3, dtype=np.uint8)[:, None, :, None, None]
    about = {"size": (32, 48), "num_frames": 6, "frames": painted}
    few = select(make_store(classes=CLASSES, train=1, val=0, test=0, **about))
    sheet = videos._sheet(few)
    assert sheet.shape[2] % step == 0
    monkeypatch.setattr(videos, "PALETTE_PIXELS", sheet[..., 0].size // step + 1)
    export(few, tmp_path / "sheet.gif", to="gif")
    assert np.abs(played(tmp_path / "sheet.gif")[0] - sheet)[np.ptp(sheet, axis=-1) > 99].max() < 9


def test_a_sheet_of_a_store_shows_clips_of_each_class_and_split(make_store, tmp_path):
    store = make_store(classes=2, train=[1, 5], val=0, test=2)
    shown = videos.sheet_of(store, 3)
    assert shown.classes == tuple(f"{split}, {name}" for split in ("train", "test") for name in store.classes)
    assert shown.labels.tolist() == [0, 1, 1, 1, 2, 2, 3, 3]
    every = store.clips("train")
    of_class = every.frames[every.labels == 1]
    torch.testing.assert_close(shown.render()[1:4], of_class[[0, 2, 4]] / 255)
    export(store.path, tmp_path / "a.gif", to="gif", clips=3)
    assert len(played(tmp_path / "a.gif")[0]) == store.num_frames


def test_a_sheet_has_the_letters_of_a_class_or_its_number(chosen, tmp_path):
    names = ("größer ελληνικά", "サーフィン", "\U0001f3c4")
    assert videos._captions(names) == [names[0], "#1", "#2"]
    export(replace(chosen, classes=names), tmp_path / "sheet.gif", to="gif")


def test_a_sheet_of_a_store_keeps_the_split_of_a_class_without_letters(make_store):
    store = make_store(classes=["a", "サーフィン"], train=1, val=0, test=1)
    assert videos.sheet_of(store, 1).classes == ("train, a", "train, #1", "test, a", "test, #1")


def test_a_caption_ends_with_its_video(chosen):
    names = ["a" * length for length in (200, 100, 1)]
    long, less, short = (videos._sheet(replace(chosen, classes=(name, "b", "c"))) for name in names)
    assert np.array_equal(long, less)
    assert not np.array_equal(long, short)
    narrow = replace(chosen, encoding=Float32().with_frames(torch.zeros(6, 4, 3, 96, 8), torch.ones(6, 4) > 0))
    assert videos._sheet(narrow).shape[0] == 4


def test_every_take_is_a_video(make_store, tmp_path):
    store = waves(make_store)
    taken = select(store, takes=3, seed=3)
    made = export(taken, tmp_path / "out", to="tensors")
    tensors = load_file(tmp_path / "out" / "clips.safetensors")
    assert (made.num_videos, tensors["labels"].tolist()) == (9, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    places = [next(i for i, source in enumerate(store.sources) if source.path == p) for p in taken.source["clips"]]
    assert torch.equal((tensors["clips"] * 255).round().byte(), store.clips("train").frames[places])
