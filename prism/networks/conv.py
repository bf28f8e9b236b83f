"""A 3D convolution that is fast for clips of few colours, as is its gradient with respect to the clips."""

from typing import Any

import torch
from torch import Tensor, autograd, nn
from torch.nn import functional

FEW_COLOURS = 4
"""Input channels up to which the phases below are faster than PyTorch's own convolutions."""


class StridedConv3d(nn.Conv3d):
    """`nn.Conv3d` with odd kernels and half a kernel of padding: the same weights and outputs, only faster.

    With few input channels, as condensation has them, the gradient of the input through frozen weights takes a
    third of `nn.Conv3d`'s time on a CPU and half on a GPU; outputs in bfloat16 take half on a GPU.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, T, H, W) to (N, after, T / stride, H / stride, W / stride), rounded up."""
        is_trained = torch.is_grad_enabled() and any(weight.requires_grad for weight in self.parameters())
        if self.in_channels <= FEW_COLOURS and not is_trained:
            if torch.is_grad_enabled() and input.requires_grad:
                return _Polyphase.apply(input, self.weight, self.bias, self.stride, self.padding)
            if input.is_cuda and input.dtype == torch.bfloat16:
                return folded(input, self.weight, self.bias, self.stride)
        return super().forward(input)


class _Polyphase(autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any) -> Tensor:
        return functional.conv3d(x, weight, bias, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, _, ctx.stride, _ = inputs
        ctx.size = x.shape[2:]
        ctx.save_for_backward(weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (weight,) = gradients, ctx.saved_tensors
        return polyphase_input_gradient(gradient, weight, ctx.stride, ctx.size), None, None, None, None


def polyphase_input_gradient(
    gradient: Tensor, weight: Tensor, stride: tuple[int, ...], size: tuple[int, ...]
) -> Tensor:
    """The gradient of a convolution's input, as an ordinary convolution without a stride.

    In one dimension, with stride s and 2p + 1 weights, output j sees input i through the weight i − s·j + p:

        gradient of input i  =  Σ_j  gradient of output j · weight[i − s·j + p]

    Write i = s·q + φ, where the phase φ is in 0..s − 1. The weight is then the one at s·(q − j) + φ + p, which
    depends on q and j only by their difference. So all inputs of one phase are an ordinary convolution of the
    outputs' gradients, with every s-th weight, and there are s such phases (a polyphase decomposition). One call
    computes all of them, as s output channels; then the phases of each q are put side by side.

    Gradients are (N, after, T', H', W') and (N, before, T, H, W), weights (after, before, …) with odd sides;
    the input was padded by half of each, and `size` is T, H, W.
    """
    phases, behind, ahead = _phases(weight, stride)
    after, before, t, r, h, s, w, u = phases.shape
    # The differences are reversed, since `conv3d` runs over j − q; phases become output channels.
    kernel = phases.flip(2, 4, 6).permute(3, 5, 7, 1, 0, 2, 4, 6).reshape(r * s * u * before, after, t, h, w)
    found = functional.conv3d(gradient, kernel, padding=ahead)
    # `conv3d` pads both sides alike. Where `ahead` is one more than `behind`, the first result lies before q = 0.
    found = found[:, :, ahead[0] - behind[0] :, ahead[1] - behind[1] :, ahead[2] - behind[2] :]
    # Input s·q + φ is phase φ of step q; beyond the last input there is nothing to keep.
    num_clips, _, *steps = found.shape
    pixels = found.view(num_clips, r, s, u, before, *steps).permute(0, 4, 5, 1, 6, 2, 7, 3)
    pixels = pixels.reshape(num_clips, before, *(num * step for num, step in zip(steps, stride, strict=True)))
    return pixels[:, :, : size[0], : size[1], : size[2]]


def folded(clips: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...]) -> Tensor:
    """The convolution of `StridedConv3d` as one of stride 1: each block of r × s × u pixels becomes channels.

    Matrix units of a GPU are fast for many channels, in multiples of eight. A stride of 2 × 2 makes twelve of
    three colours. A further channel, 1 everywhere, carries the bias and saves a pass over all outputs.
    """
    phases, behind, ahead = _phases(weight, stride)
    after, before, t, r, h, s, w, u = phases.shape
    sides = zip(clips.shape[2:], stride, behind, ahead, strict=True)
    margins = [(a * step, b * step + -side % step) for side, step, b, a in sides]
    padded = functional.pad(clips, [zeros for margin in reversed(margins) for zeros in margin])
    steps = [side // step for side, step in zip(padded.shape[2:], stride, strict=True)]
    colours = before * r * s * u
    channels = clips.new_zeros(len(clips), *steps, -(-(colours + 1) // 8) * 8)
    split = padded.reshape(len(clips), before, steps[0], r, steps[1], s, steps[2], u)
    channels[..., :colours].unflatten(-1, (before, r, s, u)).copy_(split.permute(0, 2, 4, 6, 1, 3, 5, 7))
    kernel = weight.new_zeros(after, t, h, w, channels.shape[-1])
    kernel[..., :colours].unflatten(-1, (before, r, s, u)).copy_(phases.permute(0, 2, 4, 6, 1, 3, 5, 7))
    if bias is not None:
        channels[..., colours], kernel[:, 0, 0, 0, colours] = 1, bias
    return functional.conv3d(channels.movedim(-1, 1), kernel.movedim(-1, 1))


def _phases(weight: Tensor, stride: tuple[int, ...]) -> tuple[Tensor, list[int], list[int]]:
    """Weights by differences and phases, (after, before, t, r, h, s, w, u), and the steps behind and ahead.

    With zeros on both sides the kernel has (behind + ahead + 1) · s weights, and the one for q − j and φ lies at
    s · (q − j + ahead) + φ: a view splits it into differences (t, h, w) and phases (r, s, u).
    """
    halves = [side // 2 for side in weight.shape[2:]]
    # q − j is at most p // s (first phase) and at least −(p / s rounded up) (last phase): so far behind an input
    # is the first output that sees it, and so far ahead the last one.
    behind = [half // step for half, step in zip(halves, stride, strict=True)]
    ahead = [-(-half // step) for half, step in zip(halves, stride, strict=True)]
    sides = [*zip(halves, stride, behind, ahead, strict=True)]
    margins = [(a * step - half, (b + 1) * step - half - 1) for half, step, b, a in reversed(sides)]
    padded = functional.pad(weight, [zeros for margin in margins for zeros in margin])
    split = [size for _, step, b, a in sides for size in (b + a + 1, step)]
    return padded.view(*weight.shape[:2], *split), behind, ahead
