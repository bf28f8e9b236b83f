"""A condensation class by class: the same set as all classes at once."""

import contextlib
import sys
import threading
from collections import Counter
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from settings import PAPER, load_telemetry

from prism.artifacts import cache
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.telemetry import telemetry_path
from prism.condensation.by_class import MOST_SHARES, ClassOrder, shares
from prism.condensation.condense import condense, condense_classes, resolve
from prism.condensation.options import CondenseConfig
from prism.condensation.random_networks import RandomNetworks
from prism.condensation.recorder import checkpoint_path, shards_path
from prism.errors import ArtifactError, ConfigError
from prism.selection.select import select

OPTIONS = PAPER | {"iterations": 4, "batch_real": 4, "width": 4, "vpc": 2, "lr": 10.0, "epsilon": 0.03}
TINY = OPTIONS | {"device": "cpu"}


@pytest.fixture(scope="module")
def executor():
    with ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.fixture
def uneven(make_store):
    """Classes of different sizes, some smaller than a batch."""
    return make_store(classes=3, train=[3, 7, 4])


VARIANTS = {
    "prism": {},
    "dm": {"method": "dm"},
    "random insertion": {"insertion": "random"},
    "cross-entropy": {"objective": "cross-entropy(trained=1, epochs=1)"},
    "small frames": {"storage": "h264", "keyframe_scale": 2, "init": "real", "vpc": 1},
}


def test_a_class_that_another_worker_finishes_meanwhile_is_taken_as_it_is(uneven, tmp_path):
    def overtaken(*arguments):
        (*_, run, _) = arguments
        run.path.parent.mkdir()
        run.path.write_bytes(b"of the other worker")
        return condense_classes(*arguments)

    order = ClassOrder(overtaken, uneven, resolve(CondenseConfig(**OPTIONS)), tmp_path / "set", "cpu", 60.0)
    order(range(1, 2))
    assert order.path(range(1, 2)).read_bytes() == b"of the other worker"


@given(st.integers(2, 500))
def test_shares_are_at_most_16_and_about_equal_and_hold_each_class_once(num_classes):
    found = shares(num_classes, MOST_SHARES)
    assert [label for share in found for label in share] == list(range(num_classes))
    assert len(found) == min(16, num_classes)
    assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize(("name", "most"), [*((name, 16) for name in VARIANTS), ("prism", 2)])
def test_the_classes_in_shares_make_the_set_of_all_at_once(uneven, executor, tmp_path, monkeypatch, name, most):
    monkeypatch.setattr(sys.modules["prism.condensation.by_class"], "MOST_SHARES", most)
    options = TINY | VARIANTS[name]
    whole = condense(uneven, **options)
    merged = condense(uneven, executor=executor, output=tmp_path / "set", **options)
    assert (tmp_path / "set").read_bytes() == merged.to_bytes() == whole.to_bytes()


class InAnotherFolder(Executor):
    """Computes at once, as a worker whose folder is another one."""

    def submit(self, function, /, *arguments):
        future = Future()
        with contextlib.chdir("/"):
            future.set_result(function(*arguments))
        return future


def test_the_machine_that_starts_a_run_embeds_no_clips_of_workers_on_another_device(
    uneven, executor, tmp_path, monkeypatch
):
    here, compute = threading.get_ident(), RandomNetworks.compute_means

    def elsewhere(*given: object) -> torch.Tensor:
        assert threading.get_ident() != here
        return compute(*given)

    monkeypatch.setattr(cache, "rounding", lambda device: [threading.get_ident() == here])
    monkeypatch.setattr(RandomNetworks, "compute_means", elsewhere)
    condense(uneven, executor=executor, output=tmp_path / "set", **TINY)


def test_shares_start_as_the_set_that_a_path_names_where_the_command_runs(uneven, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    select(uneven, vpc=2, output="chosen")
    whole = condense(uneven, **(TINY | {"init": "chosen"}))
    assert condense(uneven, executor=InAnotherFolder(), output="set", **(TINY | {"init": "chosen"})) == whole


@pytest.mark.parametrize("most", [2, 16])
def test_the_telemetry_of_the_shares_is_that_of_one_run(uneven, executor, tmp_path, monkeypatch, most):
    monkeypatch.setattr(sys.modules["prism.condensation.by_class"], "MOST_SHARES", most)
    condense(uneven, output=tmp_path / "whole", **TINY)
    condense(uneven, output=tmp_path / "set", executor=executor, **TINY)
    whole, merged = (load_telemetry(telemetry_path(tmp_path / name)) for name in ("whole", "set"))
    frames = [Counter((one["iteration"], one["frame"]) for one in run["insertion"]) for run in (merged, whole)]
    assert frames[0] == frames[1] != Counter()
    for number, wanted in enumerate(whole["step"]):
        found = [one["loss"] for one in merged["step"] if one["iteration"] == number]
        assert sum(found) == pytest.approx(wanted["loss"], rel=1e-6)
    assert [n for one in merged["end"] for n in one["keyframes"]] == whole["end"][0]["keyframes"]
    assert [name for one in merged["start"] for name in one["classes"]] == list(uneven.classes)


def test_nothing_stays_beside_a_merged_set_and_a_class_is_a_set_of_its_own(uneven, executor, output, monkeypatch):
    monkeypatch.setattr(sys.modules["prism.condensation.by_class"].shutil, "rmtree", lambda *_, **__: None)
    condense(uneven, output=output, executor=executor, **TINY)
    folder = shards_path(output)
    of_one, *_ = sorted(folder.glob("*.safetensors"))
    assert CondensedSet.load(of_one).labels.tolist() == [0, 0]
    monkeypatch.undo()
    # Killed while it drops its shards, the run has ended: nothing is made again.
    before = output.read_bytes()
    assert folder.exists()
    monkeypatch.setattr(sys.modules["prism.condensation.condense"], "iterate", None)
    condense(uneven, output=output, executor=executor, resume=True, **TINY)
    assert output.read_bytes() == before
    assert {path.name for path in output.parent.iterdir()} == {"set", telemetry_path(output).name}


@pytest.fixture
def unfinished(uneven, output, crashing_at):
    """The output of a run whose second class failed in its third iteration."""
    with crashing_at(3, label=1), ThreadPoolExecutor(1) as one:
        condense(uneven, output=output, executor=one, checkpoint_seconds=0, **TINY)
    return output


def test_a_run_goes_on_with_the_classes_that_it_lacks(uneven, executor, unfinished):
    done, begun = (shards_path(unfinished) / f"0000{label}.safetensors" for label in range(2))
    assert done.exists()
    assert checkpoint_path(begun).exists()
    written = done.stat().st_mtime_ns
    seen = []

    class Watching(ThreadPoolExecutor):
        def submit(self, function, item):
            if isinstance(item, range):
                seen.append((item.start, done.stat().st_mtime_ns))
            return super().submit(function, item)

    with pytest.raises(ConfigError, match=r"is not finished\. Continue it with --resume"):
        condense(uneven, output=unfinished, executor=executor, **TINY)
    with pytest.raises(ConfigError, match=r"was begun with an executor\. Continue it so"):
        condense(uneven, output=unfinished, resume=True, **TINY)
    with pytest.raises(ArtifactError, match=r"belongs to another run: its --lr is 10\.0, not 3\.0"):
        condense(uneven, output=unfinished, executor=executor, resume=True, **(TINY | {"lr": 3.0}))
    merged = condense(uneven, output=unfinished, executor=Watching(1), resume=True, **TINY)
    # The third class may have been done while the second failed.
    assert seen[0][0] == 1
    assert {label for label, _ in seen} <= {1, 2}
    assert all(time == written for _, time in seen)
    assert merged.to_bytes() == condense(uneven, **TINY).to_bytes()


def test_a_run_begun_without_an_executor_is_gone_on_with_there_or_forgotten(uneven, executor, output, crashing_at):
    with crashing_at(3):
        condense(uneven, output=output, checkpoint_seconds=0, **TINY)
    for resume in (False, True):
        with pytest.raises(ConfigError, match=r"was begun without an executor\. Continue it so with --resume"):
            condense(uneven, output=output, executor=executor, resume=resume, **TINY)
    condense(uneven, output=output, executor=executor, overwrite=True, **TINY)
    assert not checkpoint_path(output).exists()


def test_a_class_of_another_run_is_not_merged(uneven, executor, unfinished):
    other = unfinished.with_name("other")
    condense(uneven, output=other, **(TINY | {"seed": 5}))
    CondensedSet.load(other).save(shards_path(unfinished) / "00002.safetensors")
    with pytest.raises(ArtifactError, match=r"00002\.safetensors' belongs to another run: its classes is None"):
        condense(uneven, output=unfinished, executor=executor, resume=True, **TINY)
    assert not unfinished.exists()
