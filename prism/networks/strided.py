"""A strided convolution of clips that is not slower on a CPU than its arithmetic."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from prism.networks import winograd
from prism.networks.gradients import FEW_COLOURS, input_gradient, weight_gradient


class StridedConv3d(nn.Conv3d):
    """`nn.Conv3d` with odd kernels and half a kernel of padding: its weights and, but for rounding, its values.

    On a CPU it takes ways of its own. With weights in channels last, values in float32 and much to multiply, half
    of the products do: see `winograd`. With less to multiply, two gradients are computed otherwise. Through frozen
    weights, and with few input channels, that with respect to the input is about three times as fast: see
    `input_gradient`. With AVX2 that with respect to the weights is one and a half to six times as fast: see
    `weight_gradient`.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, T, H, W) to (N, after, T / stride, H / stride, W / stride), rounded up."""
        # cuDNN has kernels for all of it, and torch.func takes no ways of our own.
        if input.device.type != "cpu" or winograd.is_transformed(input):
            return super().forward(input)
        is_exact = input.dtype == torch.float32 and input.dim() == 5 and not torch.is_autocast_enabled("cpu")
        is_usual = is_exact and not self.weight.is_contiguous()
        if is_usual and winograd.pays(input.shape, self.weight.shape, self.stride):
            return winograd.convolve(input, self.weight, self.bias, self.stride)
        if any(weight.requires_grad for weight in self.parameters()):
            # There oneDNN computes this gradient at less than half of the forward pass's rate.
            is_own = is_usual and torch.backends.cpu.get_cpu_capability() == "AVX2"
        else:
            is_own = input.requires_grad and self.in_channels <= FEW_COLOURS
        convolve = _OwnGradients.apply if is_own else functional.conv3d
        return convolve(input, self.weight, self.bias, self.stride, self.padding)


class _OwnGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        ctx.size, ctx.stride = x.shape[2:], stride
        return functional.conv3d(x, weight, bias, stride, padding)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (x, weight) = gradients, ctx.saved_tensors
        to_input, to_weight, to_bias, *_ = ctx.needs_input_grad
        return (
            input_gradient(gradient, weight, ctx.stride, ctx.size) if to_input else None,
            weight_gradient(gradient, x, ctx.stride, weight.shape[2:]) if to_weight else None,
            gradient.sum(dim=(0, 2, 3, 4)) if to_bias else None,
            None,
            None,
        )
