"""Evaluation: an honest number for any set, written as it arrives."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from settings import set_of, without_seconds

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.errors import ArtifactError, ConfigError, DivergedError, Interrupted, OutputError
from prism.evaluation.evaluate import evaluate
from prism.networks.options import NETWORKS
from prism.selection.select import select
from prism.testing import write_store

module = sys.modules["prism.evaluation.evaluate"]
TINY = {"width": 2, "epochs": 2, "seeds": 2, "device": "cpu"}


def score(condensed, store, **options):
    return evaluate(condensed, store, **(TINY | options))


@pytest.fixture
def trained_seeds(monkeypatch) -> list[int]:
    """The seeds of all networks that were trained, in order."""
    seeds, original = list[int](), module.train

    def watched(*args: object, **options: object) -> float:
        seeds.append(options["seed"])
        return original(*args, **options)

    monkeypatch.setattr(module, "train", watched)
    return seeds


def test_the_same_seed_gives_the_same_result_and_the_runs_are_numbered_from_it(store, chosen):
    first, again = score(chosen, store, seed=5), score(chosen, store, seed=5)
    assert without_seconds(first) == without_seconds(again)
    assert [run.seed for run in first.runs] == [5, 6]
    assert without_seconds(score(chosen, store, seed=6, seeds=1)) == [without_seconds(first)[1]]


def test_test_clips_have_no_influence_on_training(make_store):
    store = make_store(test=3, seed=1)
    frames = np.fromfile(store.path / "frames.u8", np.uint8).reshape(len(store), 8, 3, 48, 48)
    frames[store.positions("test").start :] = 255 - frames[store.positions("test").start :]
    other = make_store(test=3, frames=frames)
    assert store.fingerprint != other.fingerprint
    losses = [[run.train_loss for run in score(None, s, train=s).runs] for s in (store, other)]
    assert losses[0] == losses[1]


def test_a_set_of_clips_that_tell_the_classes_apart_scores_full_marks(make_store):
    # Two classes, dark and bright, in all splits: 2 × (2 train, 1 val, 2 test), sorted by split and class.
    shades = np.repeat([30, 220, 30, 220, 30, 220], [2, 2, 1, 1, 2, 2]).astype(np.uint8)
    frames = np.broadcast_to(shades.reshape(-1, 1, 1, 1, 1), (10, 8, 3, 48, 48))
    store = make_store(train=2, frames=np.ascontiguousarray(frames))
    result = score(select(store), store, width=4, epochs=60)
    assert (result.summary(), result.metrics) == ((1.0, 0.0, 2), ("top1",))


def test_a_result_says_what_was_trained_on_and_scored_on(store, chosen, tmp_path):
    chosen.save(tmp_path / "set.safetensors")
    result = score(tmp_path / "set.safetensors", store, output=tmp_path / "result.json", label="my row")
    subject, data = result.subject, result.data
    assert (subject.kind, subject.path, subject.num_videos) == ("condensed", "set.safetensors", 4)
    assert (data.fingerprint, data.split, data.num_clips, data.num_classes) == (store.fingerprint, "test", 4, 2)
    assert (data.train_float32_bytes, result.label) == (8 * 8 * 3 * 48 * 48 * 4, "my row")
    assert score(chosen, store, label=2026).label == "2026"
    assert Result.load(tmp_path / "result.json") == result


def test_the_result_of_a_store_counts_the_clips_that_were_drawn_of_it_and_says_what_guesses_score(make_store):
    store = make_store(classes=6, train=3)
    for vpc, clips in {0: 18, 2: 12}.items():
        result = score(None, store, train=store, train_vpc=vpc, seeds=1)
        subject, clip = result.subject, 8 * 3 * 48 * 48
        assert (subject.num_videos, subject.num_keyframes) == (clips, 8 * clips)
        assert (subject.num_bytes, subject.float32_bytes) == (clips * clip, 4 * clips * clip)
        assert result.data.chance == {"top1": 1 / 6, "top5": 5 / 6}


def test_the_hits_of_a_network_are_counted_by_recording_and_make_its_score(make_store):
    store = make_store(classes=6)
    result = score(select(store), store)
    clips = [sum(map(int, of_class.split())) for of_class in result.data.recordings]
    assert clips == store.counts("test").tolist()
    for run in result.runs:
        hits = sum(int(hit) for of_class in run.hits for hit in of_class.split())
        assert run.scores["top1"] == pytest.approx(hits / result.data.num_clips)


def altered(num_frames: int = 8, size: tuple[int, int] = (48, 48), **changes: object) -> CondensedSet:
    return set_of(torch.zeros(2, num_frames, 3, *size), **changes)


MISFITS = [
    ({"classes": ("class0", "other")}, "different classes: only one of them has 'class1'"),
    ({"num_frames": 4}, r"num_frames = 4, but the data .* has 8\. Ingest the data again with --num-frames 4\."),
    ({"size": (64, 64)}, r"has \(48, 48\)\. Ingest the data again with --size 64\."),
    ({"flip": False}, r"keeps the labels of .*, but not those of the clips to train on\. Pass --flip never\."),
]


@pytest.mark.parametrize(("changes", "says"), MISFITS)
def test_a_set_that_does_not_fit_the_data_is_refused_by_what_differs(store, changes, says):
    with pytest.raises(ConfigError, match=says):
        score(altered(**changes), store)


def test_protocol_wang2024_which_mirrors_no_set_takes_one_that_must_not_be_mirrored(make_store):
    store, other = make_store(random_test_windows=3), make_store(random_test_windows=3, flip=False)
    assert score(altered(flip=False), store, protocol="wang2024").runs
    with pytest.raises(ConfigError, match="Ingest both with the same --flip"):
        score(None, store, train=other, protocol="wang2024")


def cut_otherwise(store: ClipStore, folder: Path, **changes: Any) -> ClipStore:
    """The same clips of a store of 2 training, 1 validation and 2 test clips a class, train and test exchanged.

    Args:
        changes: fields of the sources, to be replaced.
    """
    at = [*store.positions("test"), *store.positions("val"), *store.positions("train")]
    splits = [split for split, count in (("train", 4), ("val", 2), ("test", 4)) for _ in range(count)]
    sources = [replace(store.sources[i], split=split, **changes) for i, split in zip(at, splits, strict=True)]
    frames = np.fromfile(store.path / "frames.u8", np.uint8).reshape(len(store), 8, 3, 48, 48)
    return write_store(folder, store.classes, sources, frames[at])


def test_scores_on_training_clips_that_were_seen_are_cautioned(store, chosen):
    said = "scored on training clips"
    assert said in score(chosen, store, seeds=1, split="train").caution
    assert said in score(None, store, seeds=1, split="train", train=store).caution
    assert said not in score(chosen, store, seeds=1).caution
    elsewhere = replace(chosen, source={**chosen.source, "store": "another"})
    assert said not in score(elsewhere, store, seeds=1, split="train").caution


LEAK = "of the videos that score have the class, path and length of videos of the other store"


def test_a_set_of_another_store_is_cautioned_and_keeps_it_in_its_result(make_store, tmp_path, capsys):
    store = make_store(train=2)
    other = cut_otherwise(store, tmp_path / "other")
    result = score(select(store, vpc=1), other, output=tmp_path / "result.json", progress=True)
    said = "the set was made from another store than the one that scores. If that trained on videos that score"
    assert f"Caution: {said}" in capsys.readouterr().err
    assert said in str(Result.load(tmp_path / "result.json"))
    assert result.subject.made_from == store.fingerprint
    assert score(select(store, vpc=1), store).subject.leak_caution() == ""


def test_scored_videos_that_the_store_to_train_on_has_too_are_counted(make_store, tmp_path):
    store = make_store(train=2)
    result = score(None, cut_otherwise(store, tmp_path / "other"), train=store)
    assert f"{result.subject.shared_videos} {LEAK}" in result.caution
    assert result.subject.shared_videos == 4


def test_classes_without_a_clip_in_the_split_are_cautioned(make_store, tmp_path):
    store = make_store(test=[2, 0])
    result = score(select(store, vpc=1), store, seeds=1, output=tmp_path / "r.json")
    assert "the test clips are of 1 of 2 classes: the score says nothing of the others." in str(result)
    assert Result.load(tmp_path / "r.json").data.scored_classes == 1


def test_what_cannot_be_scored_is_refused_before_training(store, chosen, tmp_path):
    (tmp_path / "r.json").write_text("precious")
    with pytest.raises(OutputError, match="exists already"):
        score(chosen, store, output=tmp_path / "r.json", epochs=10**9)
    score(chosen, store, output=tmp_path / "r.json", overwrite=True)
    again = score(chosen, store, output=tmp_path / "r.json", overwrite=True, resume=True, lr=0.02)
    assert (again.config["lr"], len(Result.load(tmp_path / "r.json").runs)) == (0.02, 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lr": 1e30, "epochs": 3}, "the training loss of seed 0 is not finite"),
        (
            {"lr": 1e25, "epochs": 1, "batch_size": 4},
            r"the outputs of the network of seed 0 are not finite\. Try --max-grad-norm",
        ),
    ],
)
def test_a_divergence_is_an_error_and_not_a_number(store, chosen, tmp_path, options, says):
    with pytest.raises(DivergedError, match=says):
        score(chosen, store, seeds=1, output=tmp_path / "r.json", **options)
    assert not (tmp_path / "r.json").exists()


def test_a_network_that_diverges_leaves_the_others_in_the_result(store, chosen, tmp_path, monkeypatch):
    def train(*given: Any, seed: int, **options: Any) -> float:
        if seed == 0:
            raise DivergedError("the network of seed 0 diverged.")
        return original(*given, seed=seed, **options)

    original = module.train
    monkeypatch.setattr(module, "train", train)
    with pytest.raises(DivergedError, match="seed 0"):
        score(chosen, store, seeds=3, epochs=1, output=tmp_path / "r.json")
    assert [run.seed for run in Result.load(tmp_path / "r.json").runs] == [1, 2]


@pytest.mark.parametrize("source", [{}, {"method": 3, "config": "none"}])
def test_a_third_party_set_is_scored_whatever_it_says_of_its_source(store, source, tmp_path):
    result = score(altered(source=source), store, seeds=1, output=tmp_path / "r.json")
    assert result.subject.config == {}
    assert Result.load(tmp_path / "r.json") == result


def test_a_signal_ends_an_evaluation_and_says_how_to_go_on(store, chosen, tmp_path, monkeypatch):
    uninterrupted, original = score(chosen, store, seeds=3, output=tmp_path / "whole.json"), module.train

    def stopped(*given: object, seed: int, **options: object) -> float:
        if seed == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*given, seed=seed, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, "train", stopped)
        with pytest.raises(Interrupted, match=r"done are kept\. Run the same command with --resume"):
            score(chosen, store, seeds=3, workers=1, output=tmp_path / "r.json")
    assert {path.name for path in tmp_path.iterdir()} == {"r.json", "whole.json"}
    assert [run.seed for run in Result.load(tmp_path / "r.json").runs] == [0, 1]
    resumed = score(chosen, store, seeds=3, output=tmp_path / "r.json", resume=True)
    assert without_seconds(resumed) == without_seconds(uninterrupted)
    assert Result.load(tmp_path / "r.json") == resumed
    assert replace(resumed, runs=(), provenance={}) == replace(uninterrupted, runs=(), provenance={})


def test_a_result_may_be_extended_by_more_seeds_and_never_loses_one(store, chosen, tmp_path, trained_seeds):
    score(chosen, store, seeds=2, output=tmp_path / "r.json")
    trained_seeds.clear()
    longer = score(chosen, store, seeds=4, output=tmp_path / "r.json", resume=True)
    assert sorted(trained_seeds) == [2, 3]
    assert without_seconds(longer) == without_seconds(score(chosen, store, seeds=4))
    assert longer.config["seeds"] == 4
    assert score(chosen, store, seeds=1, output=tmp_path / "r.json", resume=True) == longer
    replace(longer, runs=longer.runs[:1]).save(tmp_path / "r.json")
    assert "are there" not in score(chosen, store, seeds=1, output=tmp_path / "r.json", resume=True).caution


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"lr": 0.02}, r"its --lr is 0\.01, not 0\.02"), ({"label": "mine"}, "its label is 'random', not 'mine'")],
)
def test_the_result_of_another_run_is_not_resumed_and_the_first_difference_is_named(
    store, chosen, tmp_path, changes, says
):
    score(chosen, store, seeds=1, output=tmp_path / "r.json")
    before = (tmp_path / "r.json").read_bytes()
    with pytest.raises(ArtifactError, match=f"belongs to another run: {says}. Repeat that run's options"):
        score(chosen, store, output=tmp_path / "r.json", resume=True, **changes)
    assert (tmp_path / "r.json").read_bytes() == before


def test_a_result_of_other_clips_another_set_or_other_versions_is_not_resumed(store, make_store, tmp_path):
    score(select(store), store, seeds=1, output=tmp_path / "r.json")
    resumed = {"output": tmp_path / "r.json", "resume": True}
    with pytest.raises(ArtifactError, match=r"its data\.fingerprint is '[0-9a-f]{64}', not '[0-9a-f]{64}'"):
        score(select(store), make_store(seed=1), **resumed)
    # The same options and the same size, but other frames.
    score(altered(source=select(store).source), store, seeds=1, output=tmp_path / "other.json")
    brighter = set_of(torch.ones(2, 8, 3, 48, 48), source=select(store).source)
    with pytest.raises(ArtifactError, match=r"its subject\.fingerprint is '[0-9a-f]{64}', not"):
        score(brighter, store, output=tmp_path / "other.json", resume=True)
    found = Result.load(tmp_path / "r.json")
    older = replace(found, provenance=found.provenance | {"torch": "1.0"})
    parted = replace(found, data=replace(found.data, recordings=()), runs=(replace(found.runs[0], hits=()),))
    for other, says in ((older, r"versions\.torch is '1\.0'"), (parted, r"data\.recordings is \(\)")):
        other.save(tmp_path / "r.json")
        with pytest.raises(ArtifactError, match=f"its {says}, not "):
            score(select(store), store, **resumed)


@pytest.mark.parametrize("name", NETWORKS.registry)
def test_every_network_is_evaluated_and_its_score_does_not_depend_on_the_batch(store, chosen, name, monkeypatch):
    results, original = [], module.outputs_of
    for size in (1, 256):
        monkeypatch.setattr(module, "outputs_of", lambda *given, size=size: original(*given[:3], size))
        results.append(score(chosen, store, model=name, epochs=1, seeds=1))
    assert without_seconds(results[0]) == without_seconds(results[1])
    assert results[0].config["model"] == name


def test_training_that_runs_out_of_a_gpus_memory_ends_with_what_to_make_smaller(store, chosen, monkeypatch):
    def train(*_: object, **__: object) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a capacity of …")

    monkeypatch.setattr(module, "train", train)
    says = r"out of memory \(CUDA out of memory\)\. Pass a smaller --width, or where there is one --hidden or"
    with pytest.raises(ConfigError, match=says):
        score(chosen, store, seeds=1)
