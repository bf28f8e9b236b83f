"""Data that changes under a run, or between two: it is noticed before anything that was made of it is saved."""

import os
import shutil
from pathlib import Path

import pytest
from conftest import write_store
from settings import PAPER
from videos import write_classes, write_numbered

from prism.condensation.condense import condense
from prism.condensation.loop import Condensation
from prism.condensation.recorder import checkpoint_path
from prism.errors import ArtifactError, SourceError
from prism.evaluation.evaluate import Evaluation, evaluate
from prism.ingestion import pool
from prism.ingestion.build import ingest

TINY = PAPER | {"width": 4, "batch_real": 1, "iterations": 3, "device": "cpu"}
SCHEDULE = {"width": 4, "epochs": 1, "seeds": 1, "device": "cpu"}


@pytest.fixture
def data(tmp_path) -> Path:
    return write_store(tmp_path / "store", train=10, val=0, test=1).path


def change(store: Path) -> None:
    with (store / "frames.u8").open("r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))


def replace(store: Path) -> None:
    other = write_store(store.with_name("other"), train=10, val=0, test=1, seed=1).path
    shutil.rmtree(store)
    os.rename(other, store)


@pytest.mark.parametrize("happens", [change, replace])
def test_a_store_that_changes_under_a_condensation_stops_it_and_the_checkpoint_stays(
    data, tmp_path, monkeypatch, happens
):
    step, output = Condensation.step, tmp_path / "set"

    def step_then_change(run: Condensation) -> dict:
        done = step(run)
        if run.iteration == 2:
            before.append(checkpoint_path(output).read_bytes())
            happens(data)
        return done

    before: list[bytes] = []
    monkeypatch.setattr(Condensation, "step", step_then_change)
    says = r"store '.*store' was changed, replaced or moved while it was being used"
    with pytest.raises(ArtifactError, match=says):
        condense(data, output=output, checkpoint_seconds=0, **TINY)
    assert not output.exists()
    assert [checkpoint_path(output).read_bytes()] == before


def test_a_store_that_changes_under_an_evaluation_stops_it(data, tmp_path, monkeypatch):
    def train_then_change(task, *given: object) -> object:
        done = train_and_score(task, *given)
        change(data)
        return done

    train_and_score = Evaluation.train_and_score
    monkeypatch.setattr(Evaluation, "train_and_score", train_then_change)
    with pytest.raises(ArtifactError, match="while it was being used"):
        evaluate(None, data, train=data, output=tmp_path / "result.json", **SCHEDULE)
    assert not (tmp_path / "result.json").exists()


def test_a_store_that_changed_between_two_runs_is_refused_by_its_checksum_or_its_fingerprint(
    data, tmp_path, crashing_at
):
    with crashing_at(2):
        condense(data, output=tmp_path / "set", checkpoint_seconds=0, **TINY)
    replace(data)
    with pytest.raises(ArtifactError, match="belongs to another run: its store is"):
        condense(data, output=tmp_path / "set", resume=True, **TINY)
    change(data)
    with pytest.raises(ArtifactError, match=r"has a changed frames\.u8"):
        condense(data, output=tmp_path / "set", resume=True, **TINY)


@pytest.mark.parametrize("happens", ["changed", "moved"])
def test_a_video_that_changes_while_it_is_ingested_is_named_and_the_next_run_takes_it_as_it_is(
    tmp_path, monkeypatch, happens
):
    from test_disk import Here

    source = write_classes(tmp_path / "source", videos=3, num_frames=8)
    video, decode = source / "jump/v1.mp4", pool.decode

    def decode_then_change(task):
        if task.relative == "walk/v2.mp4" and video.exists():
            write_numbered(video, 9, first=99) if happens == "changed" else video.unlink()
        return decode(task)

    options = {"num_frames": 4, "stride": 1, "size": 16, "workers": 1, "progress": False, "seed": 3}
    monkeypatch.setattr(pool, "Worker", Here)
    with monkeypatch.context() as patch:
        patch.setattr(pool, "decode", decode_then_change)
        with pytest.raises(SourceError, match=r"video 'jump/v1\.mp4' was changed or moved since the run began"):
            ingest(source, tmp_path / "store", **options)
    assert not (tmp_path / "store").exists()
    again = ingest(source, tmp_path / "store", **options)
    assert again.fingerprint == ingest(source, tmp_path / "fresh", **options).fingerprint
    assert len(again) == (6 if happens == "changed" else 5)
