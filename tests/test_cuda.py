"""PRISM on a GPU, where there is one."""

import shutil
import warnings

import pytest
import torch
from settings import setup_of
from torch import Tensor

import prism
from prism.machine.randomness import generator
from prism.networks import feed
from prism.networks.conv import StridedConv3d
from prism.networks.initial import initialise
from prism.networks.options import NETWORKS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
TINY = {"precision": "float32", "width": 4, "batch_real": 5, "iterations": 16, "static_iterations": 2}
METHODS = [
    {},
    {"method": "dm", "vpc": 2},
    {"method": "static-dynamic"},
    {"initial_keyframes": 2, "insertion": "gradient", "warmup": 0.0, "cooldown": 0.0},
]


@pytest.fixture(autouse=True)
def all_bits(monkeypatch):
    """Convolutions in float32, as on a CPU."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.mark.parametrize("options", METHODS)
def test_one_seed_gives_one_set_on_one_gpu_and_about_that_of_a_cpu(make_store, tmp_path, options):
    store, made = make_store(train=6), []
    for name in ("one", "two"):
        # Or the second run would read the class means of the first.
        shutil.rmtree(store.path / "cache", ignore_errors=True)
        ours = prism.condense(store, output=tmp_path / name, device="cuda", **(TINY | options))
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]
    on_cpu = TINY | options
    expected = prism.condense(store, device="cpu", **on_cpu).render()
    at_first = prism.condense(store, device="cpu", **(on_cpu | {"iterations": 0, "static_iterations": 0})).render()
    moved = (expected - at_first).abs().max().item()
    assert (ours.render() - expected).abs().max().item() < 0.02 * moved


def test_the_formats_that_are_shipped_move_videos_as_float32_does(make_store, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)  # as PyTorch has it
    store, options = make_store(train=6), {"width": 32, "batch_real": 5}
    ours = prism.condense(store, device="cuda", iterations=4, **options).render()
    expected, at_first = (prism.condense(store, device="cpu", iterations=n, **options).render() for n in (4, 0))
    # Class means in bfloat16 make 4 % here, and so do gradients in TF32.
    assert (ours - expected).norm() < 0.15 * (expected - at_first).norm()


def test_an_iteration_waits_once(make_store):
    run = setup_of(make_store(train=6), **TINY).start(CUDA)
    for _ in range(2):
        assert run.step().loss > 0
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert run.step().loss > 0
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len([each for each in caught if "synchronizing CUDA operation" in str(each.message)]) == 1


@pytest.mark.parametrize("model", NETWORKS.registry)
def test_real_clips_are_embedded_as_on_a_cpu(make_store, model):
    store, means = make_store(train=6), list[Tensor]()
    for device in (CPU, CUDA):
        networks = setup_of(store, **(TINY | {"model": model})).named_networks(device)
        means.append(networks.compute_means(0, still=False).cpu())
    torch.testing.assert_close(means[1], means[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["sent part by part", "kept on the GPU"])
def test_rows_that_are_read_while_the_gpu_computes_are_those_that_were_requested(monkeypatch, share):
    monkeypatch.setattr(feed, "SHARE", share)
    source, found = torch.arange(64.0)[:, None].expand(64, 2**18), list[tuple[Tensor, ...]]()
    rows_of = feed.Feed(source, CUDA)
    assert (rows_of.resident is None) == (share == 0)
    for _ in range(4 * feed.AHEAD):
        for positions in torch.randperm(64).split(8):
            rows = rows_of.rows(positions)
            # Some 10 ms: the copies of the next parts are made before these rows are looked at.
            torch.cuda._sleep(20_000_000)
            found.append((positions.float(), rows.amin(dim=1), rows.amax(dim=1)))
    for expected, least, most in found:
        assert torch.equal(least.cpu(), expected)
        assert torch.equal(most.cpu(), expected)


def test_networks_are_trained_and_scored(make_store):
    store = make_store(train=10, test=3)
    # A network without dropout, whose masks a GPU draws itself.
    trained = {"model": "cnn-gru", "hidden": 3, "width": 4, "seeds": 2, "epochs": 3}
    made = prism.select(store, method="herding", vpc=2, width=4, epochs=1, device="cuda")
    results = [prism.evaluate(made, store, device=device, **trained) for device in ("cpu", "cuda")]
    ours, expected = ([run.train_loss for run in result.runs] for result in results)
    assert ours == pytest.approx(expected, rel=1e-2)


def test_values_drawn_ahead_are_those_that_a_network_draws_itself(make_store):
    networks = setup_of(make_store(train=6), **TINY).networks(CUDA)
    for iteration in (0, 1, 2, 5, 4, 5, 6):
        network = networks.draw(iteration)
        expected = setup_of(networks.store, **TINY).networks(CPU).draw(iteration)
        for ours, drawn in zip(network.parameters(), expected.parameters(), strict=True):
            assert torch.equal(ours.cpu(), drawn)


def test_the_first_convolution_is_that_of_float64_in_either_direction():
    exact = StridedConv3d(3, 8, (3, 7, 7), (1, 2, 2), (1, 3, 3)).double().requires_grad_(False)
    initialise(exact, generator(0, "init"))
    clips = torch.randn(2, 3, 8, 45, 48, generator=generator(0, "clips"), dtype=torch.float64, requires_grad=True)
    expected = exact(clips)
    (gradient,) = torch.autograd.grad(expected.sum(), clips)
    for kind, error in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2)):
        ours = StridedConv3d(3, 8, (3, 7, 7), (1, 2, 2), (1, 3, 3)).requires_grad_(False)
        ours.load_state_dict(exact.state_dict())
        ours = ours.to(CUDA, kind)
        shown = clips.detach().to(CUDA, kind).requires_grad_()
        (found,) = torch.autograd.grad(ours(shown).sum(), shown)
        with torch.no_grad():
            outputs = ours(shown)
        for got, wanted in ((outputs, expected), (found, gradient)):
            assert (got.double().cpu() - wanted).norm() < error * wanted.norm()
