"""PRISM on a device that is not the CPU: the same outcome, nothing mixed, and next to nothing waited for."""

import math
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from accelerator import DEVICE, Accelerator, Cuda, OnAccelerator
from torch import Tensor

import prism
from benchmarks import gpu, peers
from benchmarks.measure import QUICK, report
from benchmarks.table import GOALS, GPU, rows
from prism.artifacts.store import ClipStore
from prism.condensation import chunk, objectives
from prism.condensation.ahead import ClassMeans
from prism.condensation.class_means import held_frames, whole_clips
from prism.condensation.condensing_memory import condensing_memory
from prism.condensation.loop import Condensation
from prism.condensation.objectives import PASSES, RECORDED_SHARE, DistributionMatching
from prism.condensation.options import CondenseConfig, settled
from prism.condensation.recorded import WARM_UPS, Recorded
from prism.condensation.stream import PRECISIONS, DrawnNetwork, NetworkStream
from prism.errors import ConfigError
from prism.evaluation.options import EvaluateConfig
from prism.machine.devices import send
from prism.machine.randomness import generator
from prism.networks import training
from prism.networks.build import build_for
from prism.networks.convnet3d import ConvNet3D
from prism.networks.feed import AHEAD
from prism.networks.initial import initialise
from prism.networks.options import NETWORKS
from prism.networks.training_memory import embedding_bytes

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


def embedding(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of synthetic clips in each call of the network."""
    original, sizes = ConvNet3D.embed, []

    def embed(self: ConvNet3D, clips: Tensor) -> Tensor:
        if clips.requires_grad:
            sizes.append(len(clips))
        return original(self, clips)

    monkeypatch.setattr(ConvNet3D, "embed", embed)
    return sizes


GRAPH = DistributionMatching(graph=True)


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({"vpc": 3}, ONE_READ),
        ({"method": "static-dynamic"}, ONE_READ),
        (TWO | {"insertion": "l2"}, AND_AN_INSERTION),
    ],
)
def test_a_recording_of_the_synthetic_step_gives_the_same_values(make_store, options, waits):
    store = make_store(train=6)
    loss, clips, _ = third_step(store, config(**options), DEVICE)
    recorded_loss, recorded_clips, found = third_step(store, config(objective=GRAPH, **options), DEVICE)
    assert found == waits
    assert recorded_loss == loss
    assert torch.equal(recorded_clips, clips)


def test_a_recorded_step_is_asked_for_once(make_store, monkeypatch):
    store, sizes = make_store(train=6), embedding(monkeypatch)
    with Accelerator():
        run = Condensation(store, config(objective=GRAPH, lr=1.0, iterations=16), DEVICE)
        for _ in range(4):
            run.step()
    assert sizes == (WARM_UPS + 1) * [2]


def test_what_a_recording_gave_stays_when_it_is_repeated():
    with Accelerator():
        doubled, given = Recorded(lambda values: (2 * values,)), send(torch.ones(2), DEVICE)
        first, second, longer = doubled(given), doubled(given + 1), doubled(send(torch.ones(3), DEVICE))
        assert [each.tolist() for (each,) in (first, second, longer)] == [[2.0] * 2, [4.0] * 2, [2.0] * 3]


class Looks(ConvNet3D):
    def embed(self, clips: Tensor) -> Tensor:
        clips.amax().item()
        return super().embed(clips)


def test_a_step_that_waits_for_the_device_is_refused_before_it_is_recorded(make_store):
    refused = r"no CUDA graph can be recorded: called a synchronizing CUDA operation\. Leave out the graph\.$"
    with Accelerator() as accelerator:
        with pytest.raises(ConfigError, match=refused):
            Condensation(make_store(train=6), config(objective=GRAPH, model=Looks, lr=1.0), DEVICE).step()
        assert accelerator.sync_debug_mode == "default"


def test_a_recording_that_fails_says_why_and_leaves_the_stream_as_it_was():
    with Accelerator() as accelerator:
        before, given = accelerator.stream, send(torch.ones(2), DEVICE)

        def work(values: Tensor) -> tuple[Tensor, ...]:
            if accelerator.graph is not None:
                raise RuntimeError("this cannot be captured.\nSearch for more.")
            return (2 * values,)

        with pytest.raises(ConfigError, match=r"recorded: this cannot be captured\. Leave out the graph\.$"):
            Recorded(work)(given)
        assert accelerator.stream is before
        assert (given + 1).tolist() == [2.0, 2.0]


def test_what_is_wrong_with_the_work_itself_is_not_blamed_on_the_recording():
    def work(values: Tensor) -> tuple[Tensor, ...]:
        raise RuntimeError("the shapes do not fit")

    with Accelerator(), pytest.raises(RuntimeError, match=r"^the shapes do not fit$"):
        Recorded(work)(send(torch.ones(2), DEVICE))


def test_a_recording_needs_a_gpu(make_store):
    with pytest.raises(ConfigError, match=r"graph = True needs a GPU\. Leave it out on a CPU\.$"):
        Condensation(make_store(train=6), config(objective=GRAPH), CPU)


@pytest.mark.parametrize("graph", ["no", 1, None])
def test_a_graph_is_asked_for_by_true_or_false(graph):
    with pytest.raises(ConfigError, match=r"^graph = .*, but it must be True or False\.$"):
        DistributionMatching(graph=graph)


def test_a_recording_keeps_the_clips_and_their_gradients_and_what_the_network_keeps_of_them(make_store):
    store = make_store(train=6)
    without, counted = (condensing_memory(store, config(vpc=3, **of), DEVICE) for of in ({}, {"objective": GRAPH}))
    clips = len(store.classes) * 3 * store.num_frames * 3 * math.prod(store.size)
    assert counted.total_bytes - without.total_bytes == without.chunk_bytes + 2 * 4 * clips


def test_a_recording_keeps_no_more_than_its_share_of_what_is_free(make_store, monkeypatch):
    store, sizes = make_store(train=6), embedding(monkeypatch)
    of_clip = PASSES * embedding_bytes(build_for(store, "convnet3d", "meta", width=2))
    monkeypatch.setattr(objectives, "available_memory_bytes", lambda device: int(2.5 * of_clip / RECORDED_SHARE))
    with Accelerator():
        Condensation(store, config(vpc=1, objective=GRAPH, lr=1.0), DEVICE).step()
        assert sizes == (WARM_UPS + 1) * [2]
        monkeypatch.setattr(objectives, "available_memory_bytes", lambda device: 0)
        sizes.clear()
        Condensation(store, config(vpc=1, objective=GRAPH, lr=1.0), DEVICE).step()
    assert sizes == (WARM_UPS + 1) * [1, 1]


def class_means(store: ClipStore, options: CondenseConfig, device: torch.device) -> tuple[Tensor, Counter]:
    with Accelerator() as accelerator:
        drawn = DrawnNetwork(NetworkStream(store, options), device)
        accelerator.waits.clear()
        means = drawn.class_means(0, held_frames, range(2))
        waits = +accelerator.waits
        return means.cpu(), waits


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("model", NETWORKS.registry)
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


@pytest.mark.parametrize("num_clips", [3, 20])
def test_a_few_parts_of_the_real_clips_are_on_their_way_at_a_time(make_store, monkeypatch, num_clips):
    store, options = make_store(train=num_clips), config(batch_real=0)
    monkeypatch.setattr(chunk, "FED_BYTES", 2 * store.clip_bytes)
    with Accelerator() as accelerator:
        drawn = DrawnNetwork(NetworkStream(store, options), DEVICE)
        for number in range(3):
            drawn.class_means(number, whole_clips, range(2))
    assert accelerator.most_parts == AHEAD + 1


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


@pytest.mark.parametrize("model", NETWORKS.registry)
def test_a_network_has_the_initial_values_that_it_has_on_a_cpu(make_store, model):
    # What a GPU draws depends on how many cores it has: another one would have other networks.
    store, drawn = make_store(train=6), []
    for device in (CPU, DEVICE):
        with Accelerator() as accelerator:
            network = build_for(store, model, device, width=2, **({"hidden": 3} if "cnn-" in model else {}))
            for seed in (0, 1):
                initialise(network, generator(seed, "init"))
            assert not +accelerator.waits
            # From other memory a GPU's copy may wait.
            held = [*network.parameters(), *network.buffers()]
            assert len(accelerator.pinned) == (2 * len(held) if device == DEVICE else 0)
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
    assert accelerator.most_parts == AHEAD + 1
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_judging_waits_once_for_the_device(make_store):
    store = make_store(train=6)
    with Accelerator() as accelerator:
        network = build_for(store, "convnet3d", DEVICE, width=2)
        initialise(network, generator(0, "init"))
        outputs = training.outputs_of(network, store.clips("train"), store.normalisation, 5)
    assert len(outputs) == 12
    assert +accelerator.waits == {"a copy to the CPU": 1}
    assert accelerator.most_parts == AHEAD + 1


@pytest.fixture
def device(monkeypatch):
    """Sets the device that verbs take, and has them compute in this thread: the pretended one is in no other."""

    @contextmanager
    def alone(num: int, device: torch.device, stopped: object = None) -> Iterator[None]:
        yield

    verbs = [name for name in sys.modules if name.startswith("prism.")]

    def take(device: torch.device) -> None:
        for name in verbs:
            for function, ours in (("pick_device", lambda name: device), ("side_by_side", alone)):
                if hasattr(sys.modules[name], function):
                    monkeypatch.setattr(sys.modules[name], function, ours)

    return take


@pytest.mark.parametrize("method", ["prism", "static-dynamic"])
def test_whole_verbs_give_what_they_give_on_a_cpu(make_store, tmp_path, device, method):
    store, found = make_store(train=10, test=3), []
    options = {"width": 2, "iterations": 5, "static_iterations": 2, "batch_real": 4, "method": method}
    for place in (CPU, DEVICE):
        device(place)
        with Accelerator():
            made = prism.condense(store, output=tmp_path / f"{place}.safetensors", **options)
            chosen = prism.select(store, method="herding", width=2, epochs=1)
            trained = {"seeds": 1, "epochs": 2, "width": 2}
            judged = prism.evaluate(made, store, **trained), prism.retrieve(chosen, store, **trained)
        found.append(
            (made.render(), chosen.render(), [run.train_loss for result in judged for run in result.runs])
        )
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-3)


def test_the_benchmark_of_a_gpu_has_the_figures_that_its_goals_ask_for(device, monkeypatch):
    device(DEVICE)
    for module in (gpu, peers):
        monkeypatch.setattr(module, "BLOCK", 2)
    with Accelerator():
        figures = report("gpu", QUICK, gpu.measure(replace(QUICK, repeats=1), DEVICE, matrix=8), None)
    goals = [goal for goal in GOALS if goal.benchmark == GPU]
    assert {label for goal in goals for label in (goal.figure, goal.ours, goal.peers) if label} <= figures.keys()
    assert {row["reached?"] for row in rows({GPU: figures}, QUICK)} <= {"yes (other sizes)", "no (other sizes)"}
    assert all(figure["median"] > 0 for figure in figures.values())


# The pretended device itself.


def sent_aside(accelerator: Accelerator, waits: bool, keeps: bool) -> Tensor:
    """A tensor that is sent on a stream of its own."""
    cuda = Cuda(accelerator)
    aside, computing = cuda.Stream(), cuda.current_stream()
    pinned = torch.empty(1, pin_memory=True).fill_(2.0)
    with cuda.stream(aside):
        sent = pinned.to(DEVICE, non_blocking=True)
    if waits:
        computing.wait_stream(aside)
    if keeps:
        sent.record_stream(computing)
    return sent


@pytest.mark.parametrize(
    ("waits", "keeps", "said"), [(False, True, "before it is there"), (True, False, "given away")]
)
def test_the_pretended_device_refuses_a_race(waits, keeps, said):
    with Accelerator() as accelerator, pytest.raises(AssertionError, match=said):
        sent_aside(accelerator, waits, keeps) + 1


@pytest.mark.parametrize("waits", [True, False])
def test_the_pretended_device_refuses_what_another_stream_has_not_computed_yet(waits):
    with Accelerator() as accelerator:
        cuda, given = Cuda(accelerator), send(torch.ones(2), DEVICE)
        computing, aside = cuda.current_stream(), cuda.Stream()
        aside.wait_stream(computing)
        with cuda.stream(aside):
            found = given[:1] + given[1:]
        if waits:
            computing.wait_stream(aside)
            assert (found + given).tolist() == [3.0, 3.0]
        else:
            with pytest.raises(AssertionError, match="before it is there"):
                found + given


def test_the_pretended_device_copies_as_late_as_it_may():
    with Accelerator() as accelerator:
        sent = sent_aside(accelerator, waits=True, keeps=True)
        (copy,) = accelerator.copies.values()
        copy.source.fill_(3.0)
        assert sent.tolist() == [3.0]


def test_a_pretended_recording_computes_nothing_until_it_is_repeated():
    with Accelerator() as accelerator:
        cuda = Cuda(accelerator)
        given, graph = send(torch.ones(2), DEVICE), cuda.CUDAGraph()
        with cuda.graph(graph, stream=cuda.Stream()):
            found = given * 2 + 1
        assert not any(value == value for value in found.tolist())
        given.fill_(4.0)
        graph.replay()
        assert found.tolist() == [9.0, 9.0]


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
