"""What a condensation takes is counted, refused where it cannot fit, and does not grow with the data set."""

from pathlib import Path

import pytest
import torch
from settings import PAPER

from prism.artifacts.store import ClipStore
from prism.condensation import chunk
from prism.condensation import condensing_memory as memory
from prism.condensation.condense import condense
from prism.condensation.condensing_memory import condensing_memory, parts_side_by_side
from prism.condensation.loop import Condensation
from prism.condensation.options import CondenseConfig
from prism.errors import ConfigError
from prism.networks.build import build_for
from prism.networks.convnet3d import ConvNet3D
from prism.networks.training_memory import embedding_bytes
from prism.testing import tiny_store

CPU = torch.device("cpu")
STATUS = Path("/proc/self/status")


@pytest.fixture
def eight_real_clips(monkeypatch):
    """No more real clips go together than others, however small they are."""
    monkeypatch.setattr(chunk, "MOST_REAL", chunk.FIRST_CHUNK["cpu"])


@pytest.mark.usefixtures("eight_real_clips")
def test_the_videos_are_counted_as_float32_and_a_gpu_can_do_with_one_class_at_a_time(store):
    config = CondenseConfig(vpc=3, width=4, keyframe_scale=2)
    clip, network = 4 * store.clip_bytes, build_for(store, "convnet3d", "meta", width=4)
    needs = condensing_memory(store, config, CPU, side_by_side=2)
    # The clips and their gradients; a quarter of that for key-frames, where they were, two gradients of them.
    assert needs.video_bytes == (2 + 4 / 4) * 6 * clip
    assert needs.num_together == 6
    assert needs.chunk_bytes == 2 * 6 * embedding_bytes(network)
    least = condensing_memory(store, config, torch.device("cuda"))
    assert least.num_together == 3
    assert least.chunk_bytes == 2 * 3 * embedding_bytes(network)


@pytest.mark.usefixtures("eight_real_clips")
def test_a_chunk_of_real_clips_takes_as_much_as_half_as_many_whose_gradients_are_taken(store):
    # Two classes of one video are fewer than the eight real clips of a chunk.
    needs = condensing_memory(store, CondenseConfig(width=4), CPU, side_by_side=2)
    assert needs.num_together == 2
    assert needs.chunk_bytes == 8 * embedding_bytes(build_for(store, "convnet3d", "meta", width=4))


def test_where_more_small_real_clips_go_together_their_limit_is_counted(store):
    few, many = (condensing_memory(store, CondenseConfig(width=4, vpc=vpc), CPU).chunk_bytes for vpc in (1, 300))
    assert few == chunk.REAL_BYTES
    assert many == 2 * 300 * embedding_bytes(build_for(store, "convnet3d", "meta", width=4)) > few


@pytest.mark.usefixtures("eight_real_clips")
def test_gradients_that_are_larger_than_a_chunk_are_counted_once_more_when_they_are_joined(make_store):
    config = CondenseConfig(method="dm", vpc=40, width=1, keyframe_scale=1)
    store = make_store(train=1)
    clip, network = 4 * store.clip_bytes, build_for(store, "convnet3d", "meta", width=1)
    needs = condensing_memory(store, config, CPU)
    assert needs.chunk_bytes == 2 * 40 * embedding_bytes(network)
    assert needs.video_bytes == 6 * 80 * clip + max(0, 80 * clip - needs.chunk_bytes)
    assert condensing_memory(store, CondenseConfig(method="static-dynamic"), CPU).video_bytes == 5 * 2 * clip


def test_a_class_alone_takes_the_memory_of_those_that_its_learning_rate_is_measured_on(tmp_path):
    store, config = tiny_store(tmp_path / "store", classes=20, clips=1), CondenseConfig(method="dm", width=16)
    every, alone = (condensing_memory(store, config, CPU, num_classes=num).video_bytes for num in (20, 1))
    assert every == 2 * alone


def test_embedding_keeps_less_than_training_does(store):
    # A frozen layer keeps nothing for its own gradient; every value of the first output is there.
    kept = embedding_bytes(build_for(store, "convnet3d", "meta", width=4))
    first = 4 * 4 * store.num_frames * (store.size[0] // 2) * (store.size[1] // 2)
    assert kept > first


@pytest.mark.usefixtures("eight_real_clips")
def test_as_many_classes_are_differentiated_at_a_time_as_there_are_threads_and_memory_for(make_store, monkeypatch):
    store, config = make_store(classes=5), CondenseConfig(vpc=8, width=4)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    for fitting in (1, 2, 3, 4):
        needs = condensing_memory(store, config, CPU, fitting).total_bytes
        monkeypatch.setattr(memory, "available_memory_bytes", lambda device, needs=needs: needs)
        assert parts_side_by_side(store, config, CPU, 5) == fitting
    assert parts_side_by_side(store, config, CPU, 2) == 2
    assert parts_side_by_side(store, config, torch.device("cuda"), 5) == 1


def test_what_does_not_fit_is_refused_before_it_starts_with_what_it_takes(store, tmp_path, monkeypatch):
    config = CondenseConfig(**(PAPER | {"vpc": 4, "width": 4, "iterations": 1, "batch_real": 2}))
    needs = condensing_memory(store, config, CPU).total_bytes
    monkeypatch.setattr(memory, "available_memory_bytes", lambda device: needs - 1)
    says = r"^condensing 4 videos for each of 2 classes takes 0\.\d GiB: .* cpu has 0\.\d GiB free\. .*--vpc or"
    with pytest.raises(ConfigError, match=says):
        condense(store, config, output=tmp_path / "set", device="cpu")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(memory, "available_memory_bytes", lambda device: needs)
    assert condense(store, config, device="cpu")


def anonymous_bytes() -> int:
    """Memory of this process that no file backs: clips that are mapped from a store can always be dropped."""
    (line,) = [line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon:")]
    return 1024 * int(line.split()[1])


@pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell how much memory a process has")
def test_memory_does_not_grow_with_the_data_set(make_store, monkeypatch):
    seen: list[int] = []
    original = ConvNet3D.embed

    def embed(self: ConvNet3D, clips: torch.Tensor) -> torch.Tensor:
        seen.append(anonymous_bytes())
        return original(self, clips)

    monkeypatch.setattr(ConvNet3D, "embed", embed)

    def peak(store: ClipStore) -> int:
        run = Condensation(store, CondenseConfig(width=2, batch_real=8, lr=1.0), CPU)
        seen.clear()
        run.step()
        return max(seen)

    # Written before anything is measured: what a store is written from is memory too.
    few, many = make_store(train=8), make_store(train=200)
    peak(few)
    small, large = peak(few), peak(many)
    # 384 clips more: 21 MB of pixels, 85 MB as a network takes them.
    assert large - small < 10_000_000
