"""What a caller gets wrong is refused at the border, in one sentence that names it."""

import pickle
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import prism
from prism.artifacts.clips import Clips
from prism.artifacts.results import Result
from prism.artifacts.store import ClipStore
from prism.cli import run
from prism.condensation.by_class import run_path
from prism.condensation.objectives import Objective
from prism.condensation.options import OBJECTIVES
from prism.errors import AGAIN, ArtifactError, ClipError, ConfigError, OutputError, PrismError, SourceError
from prism.ingestion import pool
from prism.ingestion.load import VideoDataset
from prism.ingestion.options import IngestConfig
from prism.ingestion.pool import Task
from prism.machine import executors, provenance
from prism.machine.devices import pick_device
from prism.machine.files import check_output_folder, lock
from prism.machine.text_io import MAX_TEXT_BYTES, first_difference, read_text
from prism.networks.network import Network
from prism.reproduction.paper import exhibit
from prism.reproduction.plan import plan

FRAMES, LABELS, NAMES = torch.zeros(2, 4, 3, 8, 8), torch.tensor([0, 1]), ("a", "b")
ENDLESS = "path,label\n" + 200_000 * "a"
POOL, DASK = ThreadPoolExecutor(1), SimpleNamespace(submit=0)
BY_CLASS = {"method": "static-dynamic", "executor": POOL}


class Unfinished(Network):
    """Has no length of its embeddings."""

    embed = forward = lambda _, clips: clips


def of_layout(store: ClipStore, layout: str) -> ClipStore:
    header = replace(store.header, settings=store.header.settings | {"layout": layout})
    return ClipStore(store.path, header, store.sources)


def unfinished(store: ClipStore, at: Path) -> None:
    run_path(at / "out").parent.mkdir()
    run_path(at / "out").write_text("{")
    prism.condense(store, output=at / "out", resume=True, executor=POOL, iterations=1)


def of_text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def link(path: Path) -> Path:
    path.symlink_to(path.parent)
    return path


step = partial(prism.condense, iterations=1)
Case = tuple[Callable[[Any, Any], object], str]
CASES: dict[type[PrismError], list[Case]] = {
    ClipError: [
        (lambda *_: Clips(FRAMES.transpose(1, 2), LABELS, NAMES), "(N, C, T, H, W)?"),
        (lambda *_: Clips(FRAMES.long(), LABELS, NAMES), "got torch.int64"),
        (lambda *_: Clips(FRAMES.numpy(), LABELS, NAMES), "got a ndarray"),
        (lambda *_: Clips(FRAMES, LABELS[:1], NAMES), "labels must be (2,) to match"),
        (lambda *_: Clips(FRAMES, LABELS.int(), NAMES), "labels must be a tensor of int64, got torch.int32"),
        (lambda *_: Clips(FRAMES, [0, 1], NAMES), "labels must be a tensor of int64, got a list"),
        (lambda *_: Clips(FRAMES, LABELS + 1, NAMES), "labels must lie in 0.."),
        (lambda *_: Clips(FRAMES, LABELS, NAMES[:1]), "must lie in 0..0"),
    ],
    ArtifactError: [
        (lambda _, at: Result.load(at / "r.json"), "r.json' does not exist."),
        (lambda *_: ClipStore.open(__file__), ", not a clip store."),
        (lambda _, at: prism.load(at / "out"), "does not exist"),
        (unfinished, "run.json' is damaged"),
    ],
    OutputError: [
        (lambda _, at: lock(of_text(at / "file", "") / "a" / "b").__enter__(), "be written: Not a directory"),
        (lambda _, at: check_output_folder(link(at / "link"), True, "", "", ()), "is a link. Name the folder"),
    ],
    SourceError: [
        (lambda _, at: prism.ingest(of_text(at / "list.csv", ENDLESS), at / "out"), "is not a CSV file"),
        (lambda _, at: prism.load(at), "has no videos. Expected <class>"),
    ],
    ConfigError: [
        (lambda store, _: store.positions("dev"), "split = 'dev', but it must be one of train"),
        (lambda store, at: plan(exhibit("figure3"), [of_layout(store, "ssv2")], at), "but store"),
        (lambda *_: pick_device("cuda:x"), "device = 'cuda:x', but it must be auto, cpu, cuda, or a GPU"),
        (lambda *_: OBJECTIVES.resolve("distribution(a=1"), "objective = 'distribution(a=1', but it must be"),
        (lambda _, at: prism.ingest(at, at / "out", workers=0), "workers = 0, but it must be a whole number, at"),
        (lambda _, at: prism.load(at, num_frames=1), "ingest.num_frames = 1, but it must be between 2 and 4096"),
        (lambda _, at: prism.load(at, output_fromat=1), "key 'load.output_fromat'. Did you mean 'output_format'?"),
        (lambda store, _: prism.load(store.path, num_frames=8), "num_frames is an option for videos, but '"),
        (lambda store, _: prism.load(store.path, output_format="THWC1"), "must be one of CTHW"),
        (lambda store, _: VideoDataset(store)[0:2], "one video at a time: data[0]"),
        (lambda store, _: VideoDataset(str(store.path)), "Open it with prism.load('"),
        (lambda store, _: prism.evaluate(None, store, train=store, train_vpc=99), "a smaller --train-vpc, or"),
        (lambda store, _: VideoDataset(prism.select(store), split="test"), "has training videos alone"),
        (lambda store, _: VideoDataset(prism.select(store), split=None), "has training videos alone"),
        (lambda store, at: prism.export(prism.select(store), at / "out", to="gfi"), "Did you mean 'gif'?"),
        (lambda store, at: prism.export(prism.select(store), at / "e.gif"), "would be a folder. Pass --to gif"),
        (lambda store, at: prism.export(store, at / "out"), "not as 'videofolder'. Pass --to gif."),
        (lambda store, at: prism.export(store, at / "e.png", to="gif"), "e.png' would be a GIF"),
        (lambda _, at: prism.report([], at / "out"), "at least one result"),
        (lambda _, at: prism.report([3], at / "out"), "the file of a result is wanted"),
        (lambda store, _: prism.evaluate(prism.select(store), store, train_vpc=1), "needs a store to --train on"),
        (lambda store, _: prism.evaluate(None, store, executor=3), "must be a concurrent.futures.Exec"),
        (lambda store, _: prism.evaluate(None, store, executor=DASK), "a Dask client has get_executor()"),
        (lambda store, _: prism.condense(store, executor=POOL), "an executor needs an output"),
        (lambda store, _: prism.condense(store, objective="cross-entropy(trained=0)"), "trained ≥ 1"),
        (lambda store, _: prism.condense(store, objective="cross-entropy(epochs=1e2)"), "whole numbers trained"),
        (lambda store, at: prism.select(store, output=5), "the path of an output is wanted, not 5."),
        (lambda store, at: prism.condense(store, **BY_CLASS, output=at / "out"), "condenses all classes together"),
        (lambda store, _: prism.condense(store, **BY_CLASS, storage="h264"), "whose memories are no pictures"),
        (lambda store, _: step(store, storage="builtins:str"), "prism.artifacts.encodings.Encoding"),
        (lambda store, _: step(store, method="builtins:dict"), "prism.condensation.videos.Method"),
        (lambda store, _: step(store, insertion="builtins:dict"), "prism.condensation.rules.InsertionRule"),
        (lambda store, _: step(store, objective=partial(dict, 1)), "prism.condensation.objectives.Objective"),
        (lambda store, _: step(store, objective=Objective()), "the objective has neither loss(…) nor match(…)."),
        (lambda store, _: step(store, model=Unfinished), "has no embed_dim"),
    ],
}


@pytest.mark.parametrize(("kind", "call", "says"), [(kind, *case) for kind in CASES for case in CASES[kind]])
def test_a_wrong_value_gets_one_sentence_and_leaves_no_output(store, tmp_path, kind, call, says):
    with pytest.raises(kind, match=re.escape(says)):
        call(store, tmp_path)
    assert not (tmp_path / "out").exists()


def test_the_first_difference_of_files_is_said_in_words():
    assert first_difference({"a": 1}, {"a": 1}) == "nothing differs"
    options = ({"config": of} for of in ({"placement": "error"}, {}))
    assert first_difference(*options) == "its --placement is 'error', not the default"


def test_a_machine_without_git_records_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance._commit.__wrapped__() is None


def test_a_text_that_nobody_wrote_is_not_read(tmp_path):
    with (tmp_path / "long").open("wb") as file:
        file.truncate(MAX_TEXT_BYTES + 1)
    with pytest.raises(ValueError, match="larger than"):
        read_text(tmp_path / "long")


def test_a_store_that_differs_where_it_arrives_is_refused(make_store):
    store, other = make_store(), make_store(seed=1)
    sent = pickle.dumps(store)
    shutil.rmtree(store.path)
    other.path.rename(store.path)
    with pytest.raises(PrismError, match="must see the same files"):
        pickle.loads(sent)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(5, "Input/output error"), "it cannot be read: input/output error."),
        (MemoryError(), "it takes more memory than there is, or than max_decode_bytes allows."),
    ],
)
def test_a_video_that_the_system_cannot_give_is_skipped_with_its_reason(monkeypatch, tmp_path, error, says):
    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(pool, "read_clips", failing)
    task = Task(0, str(tmp_path / "a.mp4"), "a.mp4", "train", str(tmp_path / "slots"), 0, IngestConfig())
    assert pool.decode(task).reason == says


def test_a_gpu_is_taken_by_its_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert [pick_device(name).index for name in ("auto", "cuda", "cuda:0")] == [1, 1, 0]
    with pytest.raises(PrismError, match="there are 2 CUDA devices, counted from 0"):
        pick_device("cuda:2")


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, f"interrupted. {AGAIN}"),
        (OSError(28, "No space left on device"), 1, "'standard output' cannot be used: No space left on device."),
        (PermissionError(13, "Permission denied", "/x"), 1, "'/x' cannot be used: Permission denied."),
    ],
)
def test_the_end_of_a_command_is_a_sentence_and_a_code(capsys, error, code, says):
    def command() -> None:
        raise error

    assert run(command) == code
    assert capsys.readouterr().err == f"prism: {says}\n"


def test_an_error_of_our_own_comes_out_of_a_command():
    with pytest.raises(OSError, match="its own"):
        run(partial(exec, "raise OSError('its own')"))


def test_a_cluster_without_dask_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(PrismError, match="Dask is not installed"), executors.dask_executor("tcp://127.0.0.1:9"):
        pass
