"""A strided convolution whose input gradient is computed in another way is still that convolution."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from settings import threads
from torch import Tensor, nn
from torch.nn import functional

from prism.machine.randomness import generator
from prism.networks.build import build
from prism.networks.conv import StridedConv3d, folded, polyphase_input_gradient
from prism.networks.initial import initialise

sizes = st.tuples(st.integers(1, 6), st.integers(1, 13), st.integers(1, 13))
kernels = st.tuples(*[st.sampled_from([1, 3, 5, 7])] * 3)
strides = st.tuples(*[st.integers(1, 4)] * 3)


def layer(kind: type[nn.Conv3d] = StridedConv3d, *, bias: bool = True) -> nn.Conv3d:
    made = kind(3, 5, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=bias).double()
    initialise(made, generator(0, "init"))
    return made


def drawn(*shape: int, name: str = "clips") -> Tensor:
    return torch.randn(shape, generator=generator(1, name), dtype=torch.float64)


@given(size=sizes, kernel=kernels, stride=strides)
def test_the_input_gradient_is_that_of_automatic_differentiation(size, kernel, stride):
    clips, weight = drawn(2, 3, *size).requires_grad_(), drawn(4, 3, *kernel, name="weight")
    outputs = functional.conv3d(clips, weight, None, stride, tuple(side // 2 for side in kernel))
    gradient = drawn(*outputs.shape, name="gradient")
    (expected,) = torch.autograd.grad(outputs, clips, gradient)
    torch.testing.assert_close(polyphase_input_gradient(gradient, weight, stride, size), expected)


@given(size=sizes, kernel=kernels, stride=strides)
def test_phases_as_channels_give_the_same_outputs(size, kernel, stride):
    weight, bias = drawn(4, 3, *kernel, name="weight"), drawn(4, name="bias")
    clips = drawn(2, size[0], 3, *size[1:]).transpose(1, 2)
    expected = functional.conv3d(clips, weight, bias, stride, tuple(side // 2 for side in kernel))
    torch.testing.assert_close(folded(clips, weight, bias, stride), expected)


@settings(max_examples=8)
@given(size=sizes, bias=st.booleans())
def test_a_frozen_layer_has_the_gradient_of_finite_differences(size, bias):
    frozen = layer(bias=bias).requires_grad_(False)
    assert torch.autograd.gradcheck(frozen, drawn(1, 3, *size).requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last_3d])
@pytest.mark.parametrize("trained", [(), ("bias",), ("weight", "bias")], ids=["frozen", "bias", "trained"])
def test_it_has_the_layout_values_and_gradients_of_the_plain_one(memory_format, trained):
    values, gradients = [], []
    # As condensation hands them over: frames before channels in memory.
    clips = drawn(2, 4, 3, 9, 12).float().transpose(1, 2)
    for convolution in (layer().float(), layer(nn.Conv3d).float()):
        convolution.requires_grad_(False).weight.data = convolution.weight.data.to(memory_format=memory_format)
        for name in trained:
            getattr(convolution, name).requires_grad_()
        inputs = clips.detach().requires_grad_()
        values.append(convolution(inputs))
        wanted = [inputs, *(getattr(convolution, name) for name in trained)]
        gradients.append(torch.autograd.grad(values[-1].square().sum(), wanted))
    assert torch.equal(*values)
    assert values[0].is_contiguous(memory_format=memory_format)
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_frozen_weights_keep_no_clips_for_their_gradient():
    kept, frozen = [], layer().requires_grad_(False)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        frozen(drawn(1, 3, 3, 6, 5).requires_grad_())
    assert kept == [torch.Size((5, 3, 3, 7, 7))]


def test_transforms_of_torch_func_and_gradients_of_many_outputs_at_once_work():
    frozen, clips = layer().requires_grad_(False), drawn(2, 3, 4, 9, 8).requires_grad_()

    def energies(x: Tensor) -> Tensor:
        return frozen(x).square().sum(dim=(1, 2, 3, 4))

    of_each = torch.stack([torch.autograd.grad(one, clips, retain_graph=True)[0] for one in energies(clips)])
    every = torch.eye(2, dtype=torch.float64)
    (at_once,) = torch.autograd.grad(energies(clips), clips, every, is_grads_batched=True)
    torch.testing.assert_close(at_once, of_each)
    torch.testing.assert_close(torch.func.grad(lambda x: energies(x).sum())(clips), of_each.sum(dim=0))


def test_threads_change_no_bit_of_a_gradient():
    network = build("convnet3d", num_classes=3, num_frames=8, size=64, width=8).eval().requires_grad_(False)
    found = []
    for number in (1, 2):
        clips = drawn(4, 3, 8, 64, 64).float().requires_grad_()
        with threads(number):
            found += torch.autograd.grad(network.embed(clips).square().sum(), clips)
    assert torch.equal(*found)


def test_the_state_of_convnet3d_is_named_as_ever():
    network = build("convnet3d", "meta", num_classes=3, num_frames=8, size=64, width=8)
    layers = [*(f"blocks.{i}" for i in (0, 3, 6)), "classifier"]
    assert list(network.state_dict()) == [f"{name}.{kind}" for name in layers for kind in ("weight", "bias")]
