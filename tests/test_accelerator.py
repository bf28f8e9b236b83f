"""PRISM on a device that is not the CPU: the same outcome, nothing mixed, and next to nothing waited for."""

from collections import Counter

import pytest
import torch
from accelerator import DEVICE, Accelerator, OnAccelerator
from torch import Tensor

from prism.artifacts.store import ClipStore
from prism.condensation import chunk
from prism.condensation.ahead import ClassMeans
from prism.condensation.class_means import held_frames, whole_clips
from prism.condensation.loop import Condensation
from prism.condensation.options import CondenseConfig, settled
from prism.condensation.stream import PRECISIONS, DrawnNetwork, NetworkStream
from prism.evaluation.options import EvaluateConfig
from prism.machine.devices import send
from prism.machine.randomness import generator
from prism.networks import training
from prism.networks.build import build_for
from prism.networks.convnet3d import ConvNet3D
from prism.networks.initial import initialise
from prism.networks.options import NETWORKS

CPU = torch.device("cpu")
ONE_READ = {"a copy to the CPU": 1}
"""The losses must be seen in every iteration, so that a run that diverges stops there. What the telemetry says
beside them is read with them."""
AND_AN_INSERTION = {"a copy to the CPU": 2, "aten._local_scalar_dense.default": 2, "aten.nonzero.default": 1}
"""Whether a frame is left to insert; which ones are, here and there; and how many key-frames there are then."""

TWO = {"initial_keyframes": 2}


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Four clips at a time; and dropout by a generator of the CPU, since the pretended device draws there."""
    monkeypatch.setitem(chunk.FIRST_CHUNK, DEVICE.type, 4)
    monkeypatch.setitem(chunk.FIRST_CHUNK, "cpu", 4)
    monkeypatch.setattr(chunk, "MOST_REAL", 4)
    monkeypatch.setattr(training, "generator", lambda *names, device="cpu": generator(*names))
    # The layout that is fast on a CPU rounds in its own way.
    monkeypatch.setattr(ConvNet3D, "CPU_LAYOUT", torch.preserve_format)


def config(**options: object) -> CondenseConfig:
    tiny = {"width": 2, "batch_real": 5, "iterations": 8, "static_iterations": 1, "warmup": 0.0, "cooldown": 0.0}
    return settled(CondenseConfig(**(tiny | options)))  # type: ignore[arg-type]


def third_step(store: ClipStore, options: CondenseConfig, device: torch.device) -> tuple[float, Tensor, Counter]:
    """The loss of an iteration, the clips after it, and what was waited for in it."""
    with Accelerator() as accelerator:
        run = Condensation(store, options, device)
        for _ in range(2):
            run.step()
        accelerator.waits.clear()
        loss = run.step().loss
        waits = +accelerator.waits
        return loss, run.videos.render(3).detach().cpu(), waits


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({}, ONE_READ),
        ({"vpc": 2, "precision": "bfloat16"}, ONE_READ),
        ({"method": "dm"}, ONE_READ),
        ({"method": "static-dynamic"}, ONE_READ),
        (TWO | {"insertion": "gradient"}, AND_AN_INSERTION),
        (TWO | {"insertion": "random"}, AND_AN_INSERTION),
        (TWO | {"insertion": "l2"}, AND_AN_INSERTION),
    ],
)
def test_an_iteration_waits_for_the_device_once_and_for_what_it_inserts(make_store, options, waits):
    store = make_store(train=6)
    expected, clips, _ = third_step(store, config(**options), CPU)
    loss, ours, found = third_step(store, config(**options), DEVICE)
    assert found == waits
    # The gradient of the first convolution goes another way on a CPU.
    assert loss == pytest.approx(expected, rel=1e-4)
    torch.testing.assert_close(ours, clips, rtol=1e-3, atol=1e-4)


def class_means(store: ClipStore, options: CondenseConfig, device: torch.device) -> tuple[Tensor, Counter]:
    with Accelerator() as accelerator:
        drawn = DrawnNetwork(NetworkStream(store, options), device)
        accelerator.waits.clear()
        means = drawn.class_means(0, held_frames, range(2))
        waits = +accelerator.waits
        return means.cpu(), waits


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("model", NETWORKS.homes)
def test_real_clips_are_embedded_in_either_precision_without_waiting(make_store, model, precision):
    # So a GPU embeds a chunk of clips while the next one is read.
    store, options = make_store(train=6), config(model=model, precision=precision)
    means, waits = class_means(store, options, DEVICE)
    assert not waits
    # A recurrent layer has a kernel of its own on a CPU.
    close = {"rtol": 1e-4, "atol": 1e-5} if precision == "float32" else {"rtol": 0.03, "atol": 3e-3}
    torch.testing.assert_close(means, class_means(store, options, CPU)[0], **close)


def test_where_memory_runs_out_the_same_clips_are_read_again_in_smaller_parts(make_store, monkeypatch):
    store, original, sizes = make_store(train=6), ConvNet3D.embed, []

    def embed(self: ConvNet3D, clips: Tensor) -> Tensor:
        sizes.append(len(clips))
        if len(clips) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return original(self, clips)

    with monkeypatch.context() as patch:
        patch.setattr(ConvNet3D, "embed", embed)
        means, waits = class_means(store, config(), DEVICE)
    assert sizes == [4, 2, 2, 2, 2, 2]
    assert not waits
    monkeypatch.setitem(chunk.FIRST_CHUNK, "cpu", 2)
    monkeypatch.setattr(chunk, "MOST_REAL", 2)
    assert torch.equal(means, class_means(store, config(), CPU)[0])


def test_kept_class_means_are_sent_without_waiting(make_store):
    store = make_store(train=6)
    with Accelerator() as accelerator:
        stream = NetworkStream(store, config())
        (file,) = stream.files([(0, whole_clips)], DEVICE).values()
        file.save(torch.rand(file.shape))
        means = ClassMeans(DrawnNetwork(stream, DEVICE))
        kept = [means.of(number) for number in range(3)]
        assert not +accelerator.waits
        assert all(isinstance(found, OnAccelerator) for found in kept)


@pytest.mark.parametrize("model", NETWORKS.homes)
def test_a_network_has_the_initial_values_that_it_has_on_a_cpu(make_store, model):
    # What a GPU draws depends on how many cores it has: another one would have other networks.
    store, drawn = make_store(train=6), []
    for device in (CPU, DEVICE):
        with Accelerator() as accelerator:
            network = build_for(store, model, device, width=2, **({"hidden": 3} if "cnn-" in model else {}))
            for seed in (0, 1):
                initialise(network, generator(seed, "init"))
            assert not +accelerator.waits
            drawn.append({name: value.detach().cpu() for name, value in network.named_parameters()})
    torch.testing.assert_close(drawn[1], drawn[0], rtol=0, atol=0)


def test_an_epoch_of_training_waits_once_for_the_device(make_store):
    store, losses = make_store(train=6), []
    schedule = EvaluateConfig(epochs=3, batch_size=5, lr=0.01, shift=0.2).schedule
    for device in (CPU, DEVICE):
        with Accelerator() as accelerator:
            network, clips = build_for(store, "convnet3d", device, width=2), store.clips("train")
            losses.append(training.train(network, clips, store.normalisation, schedule, seed=0, flip=True))
    assert +accelerator.waits == {"aten._local_scalar_dense.default": schedule.epochs}
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


# The pretended device itself.


@pytest.mark.parametrize(
    "asks",
    [
        float,
        bool,
        lambda x: x.tolist(),
        Tensor.cpu,
        Tensor.nonzero,
        lambda x: x[x > 0],
        lambda x: x[torch.tensor([0])],
        lambda x: torch.equal(x, x),
        lambda x: x + torch.tensor([1.0]).to(DEVICE),
        lambda x: x.copy_(torch.tensor([1.0])),
        lambda x: x.masked_select(x > 0),
    ],
)
def test_the_pretended_device_counts_what_is_waited_for(asks):
    with Accelerator() as accelerator:
        number = send(torch.tensor([2.0]), DEVICE)
        assert not +accelerator.waits
        asks(number)
    assert accelerator.waits.total() == 1


def test_the_pretended_device_computes_in_place_and_in_views_and_mixes_with_nothing():
    with Accelerator() as accelerator:
        values = send(torch.zeros(2, 3), DEVICE)
        values[1].add_(2.0)
        assert accelerator.waits.total() == 0
        assert values.tolist() == [[0.0] * 3, [2.0] * 3]
        with pytest.raises(AssertionError, match="mixes devices"):
            values + torch.ones(2, 3)
