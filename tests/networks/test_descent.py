"""Descent is PyTorch's SGD, without what its class imports."""

import subprocess
import sys

import pytest
import torch

from prism.machine.randomness import generator
from prism.networks.descent import Descent


def tensors() -> list[torch.Tensor]:
    return [torch.randn(4, generator=generator(seed, "init")).requires_grad_() for seed in range(3)]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_every_step_is_that_of_sgd_to_the_last_bit(momentum, weight_decay):
    ours, theirs = tensors(), tensors()
    descent = Descent([ours[:2], ours[2:]], momentum, weight_decay)
    groups = [{"params": theirs[:2], "lr": 0.1}, {"params": theirs[2:], "lr": 0.02}]
    optimiser = torch.optim.SGD(groups, momentum=momentum, weight_decay=weight_decay)
    for step in range(5):
        descent.forget()
        optimiser.zero_grad()
        for group in (ours, theirs):
            # The first tensor rests now and then.
            sum(tensor.pow(3).sum() for tensor in group[step % 2 :]).backward()
        descent.step([0.1, 0.02])
        optimiser.step()
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_tensor_without_a_gradient_rests_whatever_its_momentum():
    (tensor,) = moved = tensors()[:1]
    descent = Descent([moved], momentum=0.9)
    tensor.sum().backward()
    descent.step([0.1])
    before, velocity = tensor.detach().clone(), descent.velocities[tensor].clone()
    descent.forget()
    descent.step([0.1])
    assert torch.equal(tensor, before)
    assert torch.equal(descent.velocities[tensor], velocity)


def test_what_cannot_be_moved_or_is_named_twice_is_refused():
    (tensor,) = tensors()[:1]
    for groups in ([[tensor * 2]], [[tensor], [tensor]]):
        with pytest.raises(ValueError, match="leaves, and each of them once"):
            Descent(groups, 0.9)


@pytest.mark.parametrize(
    ("call", "absent"),
    [
        ("condense({store!r}, width=4, iterations=1, batch_real=2, progress=False)", {"torch._dynamo"}),
        (
            "evaluate(None, {store!r}, train_store={store!r}, width=4, epochs=1, seeds=1)",
            {"torch._dynamo", "sympy"},
        ),
    ],
)
def test_neither_condensing_nor_evaluating_imports_the_compiler_of_pytorch(make_store, call, absent):
    code = f"import sys, prism\nprism.{call.format(store=str(make_store().path))}\n"
    subprocess.run([sys.executable, "-c", f"{code}assert not sys.modules.keys() & {absent}"], check=True)
