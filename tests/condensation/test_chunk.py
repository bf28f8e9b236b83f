"""Where memory runs out the work goes on in smaller parts, to the same result."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from settings import PAPER

from prism.condensation.chunk import FED_BYTES, FIRST_CHUNK, MOST_REAL, Chunk
from prism.condensation.condense import condense
from prism.condensation.loop import Condensation
from prism.condensation.options import CondenseConfig
from prism.condensation.unseen import NUM_NETWORKS
from prism.errors import ConfigError
from prism.networks.build import build
from prism.networks.convnet3d import ConvNet3D
from prism.networks.network import Network

CPU = torch.device("cpu")


@given(num=st.integers(0, 40), size=st.integers(1, 20), clips=st.integers(1, 6), room=st.integers(1, 40))
def test_each_unit_is_done_once_and_in_order_whatever_fits(num, size, clips, room):
    chunk, tried = Chunk(size), []

    def work(first: int, last: int) -> list[int]:
        tried.append(last - first)
        if last - first > room:
            raise torch.OutOfMemoryError
        return list(range(first, last))

    parts = chunk.each(num, work, clips=clips)
    assert [unit for part in parts for unit in part] == list(range(num))
    failed = [units for units in tried if units > room]
    # What was too much once is not tried again, nor anything above half of it.
    assert all(later <= max(1, units // 2) for units, later in pairwise(failed))
    assert not failed or chunk.size <= room * clips


def test_draws_are_repeated_with_the_work_that_made_them():
    def drawn(room: int) -> list[float]:
        chunk, draw, values = Chunk(16), torch.Generator().manual_seed(0), []

        def work(first: int, last: int) -> None:
            found = torch.rand(last - first, generator=draw)
            if last - first > room:
                raise torch.OutOfMemoryError
            values.extend(found.tolist())

        chunk.each(20, work, draws=[draw])
        return values

    assert drawn(3) == drawn(16)


class Own(ConvNet3D):
    """Somebody else's, which may take more than it keeps."""


def test_more_small_real_clips_go_together_than_large_ones_in_networks_that_are_known():
    def size(name: str | type[Network], width: int, num_frames: int, side: int, device: torch.device = CPU) -> int:
        network: Network = build(
            name, "meta", num_classes=10, num_frames=num_frames, size=(side, side), width=width, hidden=0
        )
        return Chunk.of_real_clips(network, device).size

    assert size("convnet3d", 2, 4, 48) == MOST_REAL
    assert MOST_REAL > size("convnet3d", 16, 8, 64) > size("convnet3d", 64, 16, 112) == FIRST_CHUNK["cpu"]
    assert size("cnn-gru", 2, 4, 48) == size(Own, 2, 4, 48) == FIRST_CHUNK["cpu"]
    gpu = torch.device("cuda")
    assert size("convnet3d", 2, 4, 48, gpu) == FIRST_CHUNK["cuda"]
    assert size("convnet3d", 64, 16, 112, gpu) == FED_BYTES // (16 * 3 * 112 * 112) == 111


def running_out(monkeypatch: pytest.MonkeyPatch, room: int) -> list[int]:
    """Let embedding fail for more clips than there is room for, and list how many were tried together."""
    tried: list[int] = []
    original: Callable[[ConvNet3D, torch.Tensor], torch.Tensor] = ConvNet3D.embed

    def embed(self: ConvNet3D, clips: torch.Tensor) -> torch.Tensor:
        tried.append(len(clips))
        if len(clips) > room:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, clips)

    monkeypatch.setattr(ConvNet3D, "embed", embed)
    return tried


@given(num=st.integers(1, 40), clips=st.integers(1, 12), size=st.integers(1, 16), threads=st.integers(1, 5))
def test_units_that_go_apart_are_done_once_in_their_order_and_alone_unless_the_network_is_invariant(
    num, clips, size, threads
):
    for is_invariant in (False, True):
        parts = Chunk(size, side_by_side=threads).each_exactly(
            num, lambda first, last: range(first, last), clips=clips, is_invariant=is_invariant
        )
        assert [unit for part in parts for unit in part] == list(range(num))
        assert all(len(part) == 1 or (is_invariant and len(part) * clips <= size) for part in parts)
        assert all(parts)


def test_a_run_that_runs_out_of_memory_goes_on_in_smaller_chunks_to_the_same_videos(make_store, monkeypatch):
    options = PAPER | {"width": 2, "batch_real": 5, "vpc": 2, "iterations": 3}

    def videos() -> torch.Tensor:
        return condense(make_store(train=5), device="cpu", **(options | {"insertion": "never"})).render()

    expected = videos()
    tried = running_out(monkeypatch, room=2)
    torch.testing.assert_close(videos(), expected, rtol=1e-4, atol=1e-5)
    # All ten real clips together.
    assert 10 in tried
    # Found once by whoever embeds real clips, and kept: a block of networks ahead, and each of the judges.
    too_many = [num for num in tried if num > 2]
    assert too_many[: 2 * (1 + NUM_NETWORKS)] == [10, 5] * (1 + NUM_NETWORKS)
    assert 10 not in too_many[2 * (1 + NUM_NETWORKS) :]


@pytest.mark.parametrize(("room", "what"), [(0, "one clip"), (1, "the 2 videos of one class")])
def test_where_not_even_the_least_fits_one_sentence_says_what_to_try(store, monkeypatch, room, what):
    run = Condensation(store, CondenseConfig(width=2, batch_real=2, vpc=2, lr=1.0), CPU)
    running_out(monkeypatch, room)
    with pytest.raises(ConfigError, match=rf"^cpu has no memory left for {what}.*--width.*\.$"):
        run.step()


def test_videos_that_plainly_cannot_fit_are_refused_before_the_first_iteration(store, monkeypatch):
    monkeypatch.setattr("prism.condensation.condense.free_bytes", lambda device: 2**20)
    with pytest.raises(
        ConfigError, match=r"^3 videos for each of 2 classes.* GiB free\. Pass a smaller --vpc.*\.$"
    ):
        condense(store, vpc=3, width=2)
