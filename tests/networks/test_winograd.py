"""Fewer products, the same convolution."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from prism.machine.randomness import generator
from prism.networks import winograd
from prism.networks.initial import initialise
from prism.networks.strided import StridedConv3d
from prism.networks.winograd import INPUT, OUTPUT, TAPS, convolve, mix, pays, rows_of, transposed

frames = st.integers(1, 10)
sides = st.tuples(st.integers(1, 9), st.integers(1, 9))
kernels = st.tuples(*[st.sampled_from([1, 3, 5, 7])] * 2)
strides = st.tuples(*[st.integers(1, 3)] * 2)
channels = st.sampled_from([3, 6])


def drawn(*shape: int, name: str = "clips") -> Tensor:
    return torch.randn(shape, generator=generator(1, name), dtype=torch.float64)


def plainly(x: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...]) -> Tensor:
    return functional.conv3d(x, weight, bias, stride, tuple(side // 2 for side in weight.shape[2:]))


def test_four_outputs_of_a_filter_of_three_taps_take_six_products():
    seen, taps = drawn(6), drawn(3, name="taps")
    each_way = [torch.tensor(matrix, dtype=torch.float64) for matrix in (OUTPUT, TAPS, INPUT)]
    output, of_taps, of_input = each_way
    expected = torch.stack([seen[first : first + 3] @ taps for first in range(4)])
    torch.testing.assert_close(output @ ((of_taps @ taps) * (of_input @ seen)), expected)


@given(frames, sides, kernels, strides, channels, st.integers(1, 40))
def test_values_and_gradients_are_those_of_a_plain_convolution(num_frames, size, kernel, stride, before, bytes_):
    inputs = [drawn(3, before, num_frames, *size), drawn(4, before, 3, *kernel, name="w"), drawn(4, name="bias")]
    found, expected = [], []
    with pytest.MonkeyPatch.context() as patch:
        # From one clip at a time to all of them.
        patch.setattr(winograd, "BYTES_AT_ONCE", 2000 * bytes_)
        for convolution, values in ((convolve, found), (plainly, expected)):
            leaves = [each.clone().requires_grad_() for each in inputs]
            made = convolution(*leaves, (1, *stride))  # pyright: ignore[reportCallIssue]
            gradient = drawn(*made.shape, name="gradient")
            values += [made, *torch.autograd.grad(made, leaves, gradient)]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@settings(max_examples=8)
@given(frames, st.booleans())
def test_only_the_gradients_that_are_asked_for_are_computed(num_frames, is_frozen):
    clips, weight = drawn(2, 3, num_frames, 5, 6), drawn(4, 3, 3, 7, 7, name="w")
    (clips if is_frozen else weight).requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        made = convolve(clips, weight, None, (1, 2, 2))
    assert kept == [weight.shape] if is_frozen else [clips.shape, weight.shape]
    made.square().sum().backward()
    assert (clips.grad is None, weight.grad is None) == (not is_frozen, is_frozen)


@pytest.mark.parametrize("trained", [("clips",), ("weight",), ("clips", "weight", "bias")], ids=" and ".join)
def test_its_gradients_have_gradients(trained):
    inputs = {"clips": drawn(2, 3, 5, 4, 3), "weight": drawn(2, 3, 3, 3, 3, name="w"), "bias": drawn(2, name="b")}
    asked = {name: inputs[name].requires_grad_() for name in trained}
    assert torch.autograd.gradgradcheck(
        lambda *values: convolve(*(inputs | dict(zip(asked, values, strict=True))).values(), (1, 2, 2)),
        tuple(asked.values()),
        fast_mode=True,
    )


def test_a_bias_may_be_all_that_is_trained():
    bias = drawn(4, name="bias").requires_grad_()
    convolve(drawn(2, 3, 8, 5, 6), drawn(4, 3, 3, 7, 7, name="w"), bias, (1, 2, 2)).sum().backward()
    torch.testing.assert_close(bias.grad, torch.full_like(bias, 2 * 8 * 3 * 3))


def test_no_clips_make_no_clips():
    clips, weight = drawn(0, 3, 4, 5, 6).requires_grad_(), drawn(4, 3, 3, 7, 7, name="w").requires_grad_()
    made = convolve(clips, weight, None, (1, 2, 2))
    made.sum().backward()
    assert made.shape == (0, 4, 4, 3, 3)
    assert weight.grad is not None
    assert not weight.grad.any()


@given(st.lists(st.lists(st.integers(-3, 3), min_size=4, max_size=4).filter(any), min_size=1, max_size=5))
def test_a_mixture_is_a_product_with_its_matrix(rows):
    parts, places = drawn(4, 2, 3).unbind(), drawn(len(rows), 2, 3, name="places")
    expected = torch.tensordot(torch.tensor(rows, dtype=torch.float64), torch.stack(parts), 1)
    before = torch.stack(parts)
    torch.testing.assert_close(torch.stack(mix(rows_of(rows), parts)), expected)
    columns = list(zip(*rows, strict=True))
    torch.testing.assert_close(torch.stack(mix(transposed(columns), parts)), expected)
    mix(rows_of(rows), parts, places.unbind())
    torch.testing.assert_close(places, expected)
    assert torch.equal(torch.stack(parts), before)


@pytest.mark.parametrize("before", [3, 16], ids=["colours in", "channels in"])
@pytest.mark.parametrize("num_frames", [8, 15, 16])
@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "trained"])
def test_a_layer_of_a_real_size_differs_from_the_plain_one_by_its_rounding(before, num_frames, frozen):
    kinds = StridedConv3d, nn.Conv3d
    ours, plain = (kind(before, 24, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=before > 3) for kind in kinds)
    initialise(ours, generator(0, "init"))
    plain.load_state_dict(ours.state_dict())
    for each in (ours, plain):
        each.requires_grad_(not frozen).weight.data = each.weight.data.to(memory_format=torch.channels_last_3d)
    # As condensation hands them over: frames before channels in memory.
    clips = drawn(2, num_frames, before, 50, 40).float().transpose(1, 2)
    assert pays(clips.shape, ours.weight.shape, ours.stride)
    values, gradients = [], []
    for convolution in (ours, plain):
        inputs = clips.detach().requires_grad_()
        values.append(convolution(inputs))
        wanted = [inputs] if frozen else [inputs, *convolution.parameters()]
        gradients.append(torch.autograd.grad(values[-1].square().sum(), wanted))
    assert values[0].is_contiguous(memory_format=torch.channels_last_3d)
    for found, expected in zip([values[0], *gradients[0]], [values[1], *gradients[1]], strict=True):
        assert found.shape == expected.shape
        assert 0 < (found - expected).norm() < 1e-5 * expected.norm()


def test_transforms_of_torch_func_and_gradients_of_many_outputs_at_once_work_for_large_layers():
    ours = StridedConv3d(3, 16, (3, 7, 7), (1, 2, 2), (1, 3, 3))
    initialise(ours, generator(0, "init"))
    ours.weight.data = ours.weight.data.to(memory_format=torch.channels_last_3d)
    clips = drawn(2, 3, 8, 64, 64).float().requires_grad_()
    assert pays(clips.shape, ours.weight.shape, ours.stride)

    def energies(x: Tensor) -> Tensor:
        return ours(x).square().sum(dim=(1, 2, 3, 4))

    of_each = torch.stack([torch.autograd.grad(one, clips, retain_graph=True)[0] for one in energies(clips)])
    (at_once,) = torch.autograd.grad(energies(clips), clips, torch.eye(2), is_grads_batched=True)
    torch.testing.assert_close(at_once, of_each, rtol=1e-4, atol=1e-4)
    found = torch.func.grad(lambda x: energies(x).sum())(clips)
    torch.testing.assert_close(found, of_each.sum(dim=0), rtol=1e-4, atol=1e-4)


def test_little_work_and_other_kernels_are_left_to_pytorch():
    weight, stride = (16, 3, 3, 7, 7), (1, 2, 2)
    assert pays((1, 3, 8, 64, 64), weight, stride)
    assert pays((7, 3, 8, 64, 64), weight, stride)
    assert not pays((7, 3, 8, 32, 32), weight, stride)
    assert pays((7, 128, 8, 7, 7), (128, 128, 3, 7, 7), stride)
    assert not pays((7, 128, 8, 6, 7), (128, 128, 3, 7, 7), stride)
    # Of the eight frames that two tiles make three are not asked for.
    assert not pays((7, 3, 5, 64, 64), weight, stride)
    assert not pays((1, 3, 8, 64, 64), (16, 3, 5, 7, 7), stride)
    assert not pays((1, 3, 8, 64, 64), weight, (2, 2, 2))


@pytest.mark.parametrize("other", ["number format", "layout", "automatic bfloat16", "one clip alone"])
def test_what_it_was_not_measured_with_is_left_to_pytorch(monkeypatch, other):
    monkeypatch.setattr(winograd, "convolve", lambda *arguments: pytest.fail("taken all the same"))
    dtype = torch.bfloat16 if other == "number format" else torch.float32
    memory_format = torch.contiguous_format if other == "layout" else torch.channels_last_3d
    layer = StridedConv3d(3, 16, (3, 7, 7), (1, 2, 2), (1, 3, 3)).to(dtype)
    layer.weight.data = layer.weight.data.to(memory_format=memory_format)
    clips = torch.zeros(3, 8, 64, 64) if other == "one clip alone" else torch.zeros(1, 3, 8, 64, 64)
    with torch.autocast("cpu", torch.bfloat16, enabled=other == "automatic bfloat16"):
        layer(clips.to(dtype))
