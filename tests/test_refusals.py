"""What a caller gets wrong is refused at the border, in one sentence that names it."""

import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import prism
from prism.artifacts.clips import Clips
from prism.artifacts.results import Result
from prism.cli import run
from prism.condensation.by_class import run_path
from prism.condensation.objectives import Objective
from prism.condensation.options import OBJECTIVES
from prism.errors import PrismError
from prism.ingestion.options import IngestConfig
from prism.ingestion.sampling import choose_windows
from prism.machine import executors
from prism.machine.devices import pick_device
from prism.machine.text_io import MAX_TEXT_BYTES, read_text
from prism.networks.network import Network
from prism.reproduction.paper import exhibit
from prism.reproduction.plan import plan

FRAMES = torch.zeros(2, 4, 3, 8, 8)


class Unfinished(Network):
    """Has no length of its embeddings."""

    embed = forward = lambda _, clips: clips


def of_layout(make_store: Any, layout: str) -> Any:
    store = make_store()
    store.header.settings["layout"] = layout
    return store


def unfinished(make_store: Any, at: Path) -> None:
    run_path(at / "set").parent.mkdir()
    run_path(at / "set").write_text("{")
    with ThreadPoolExecutor(1) as executor:
        prism.condense(make_store(), output=at / "set", resume=True, executor=executor, iterations=1)


CASES: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "channels first": (
        lambda *_: Clips(FRAMES.transpose(1, 2), torch.tensor([0, 1]), ("a", "b")),
        "(N, C, T, H, W)?",
    ),
    "one label too few": (lambda *_: Clips(FRAMES, torch.tensor([0]), ("a",)), "labels must be (2,) to match"),
    "a label without a name": (lambda *_: Clips(FRAMES, torch.tensor([0, 2]), ("a", "b")), "must lie in 0..1"),
    "no result": (lambda _, at: Result.load(at / "r.json"), "r.json' does not exist."),
    "no split": (lambda store, _: store().positions("dev"), "split = 'dev', but it must be one of train"),
    "memories as pictures": (
        lambda store, _: prism.condense(store(), method="static-dynamic", storage="h264"),
        "whose memories are no pictures",
    ),
    "a rate that is not known": (
        lambda *_: choose_windows(IngestConfig(sampling="fps"), 9, "a", "train", None, [range(9)]),
        "its frame rate is not known",
    ),
    "an output format": (lambda store, _: prism.load(store().path, output_format="THWC1"), "must be one of CTHW"),
    "a set of other data than a table's": (
        lambda store, at: plan(exhibit("figure3"), [of_layout(store, "ssv2")], at),
        "but store",
    ),
    "an executor": (
        lambda store, _: prism.evaluate(None, store(), executor=3),
        "must be a concurrent.futures.Exec",
    ),
    "a class without a signature": (lambda store, _: prism.condense(store(), objective=dict), "has no match(…)"),
    "a name with half of its options": (
        lambda *_: OBJECTIVES.resolve("distribution(a=1"),
        "objective = 'distribution(a=1', but it must be",
    ),
    "a run that was cut off": (unfinished, "run.json' is damaged"),
    "an objective without a loss": (
        lambda store, _: prism.condense(store(), objective=Objective(), iterations=1),
        "the objective has neither loss(…) nor match(…).",
    ),
    "a network without embed_dim": (
        lambda store, _: prism.condense(store(), model=Unfinished, iterations=1),
        "has no embed_dim",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_value_gets_one_sentence(make_store, tmp_path, name):
    call, says = CASES[name]
    with pytest.raises(PrismError, match=re.escape(says)):
        call(make_store, tmp_path)


def test_a_text_that_nobody_wrote_is_not_read(tmp_path):
    with (tmp_path / "long").open("wb") as file:
        file.truncate(MAX_TEXT_BYTES + 1)
    with pytest.raises(ValueError, match="larger than"):
        read_text(tmp_path / "long")


def test_a_store_that_differs_where_it_arrives_is_refused(make_store):
    store = make_store()
    sent = pickle.dumps(store)
    (store.path / "frames.u8").write_bytes(bytes((store.path / "frames.u8").stat().st_size))
    with pytest.raises(PrismError, match=r"must see the same files|frames\.u8"):
        pickle.loads(sent)


def test_a_gpu_is_taken_by_its_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert [pick_device(name).index for name in ("auto", "cuda", "cuda:0")] == [1, 1, 0]
    with pytest.raises(PrismError, match="there are 2 CUDA devices, counted from 0"):
        pick_device("cuda:2")


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted."),
        (OSError(28, "No space left on device"), 1, "'standard output' cannot be used: No space left on device."),
        (PermissionError(13, "Permission denied", "/x"), 1, "'/x' cannot be used: Permission denied."),
    ],
)
def test_the_end_of_a_command_is_a_sentence_and_a_code(capsys, error, code, says):
    def command() -> None:
        raise error

    assert run(command) == code
    assert capsys.readouterr().err == f"prism: {says}\n"


def test_a_cluster_without_dask_is_refused(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(PrismError, match="Dask is not installed"), executors.opened("tcp://127.0.0.1:9"):
        pass
