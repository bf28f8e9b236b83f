"""The gradients of a convolution of clips, computed in ways that PyTorch lacks on a CPU."""

import math
from typing import Any

from torch import Tensor
from torch.nn import functional, grad

# Its annotations forget that each side may have its own stride and padding.
GRADIENTS: Any = grad

FEW_COLOURS = 4
"""Input channels up to which `by_phases` is faster than PyTorch's own gradient of the input."""
FEW_CHANNELS = 32
"""Input channels up to which, with AVX2, a convolution of pictures has the faster gradient of its weights."""
CLIPS_AT_ONCE = 32
"""So many clips' windows are copied at a time, which then fit into a processor's cache."""


def weight_gradient(gradient: Tensor, x: Tensor, stride: tuple[int, ...], kernel: tuple[int, ...]) -> Tensor:
    """The gradient of a convolution's weights, by whichever way is the fastest with AVX2.

    Where an output has few rows or columns, kernels of oneDNN are slow, and a product of matrices is not. Where
    outputs are larger and few channels come in, its kernels for pictures are faster than those for clips.

    Args:
        gradient: (N, after, T', H', W') of the output.
        x: (N, before, T, H, W), padded by half of a kernel.
        stride: steps in time, down and across.
        kernel: frames, rows and columns of the weights; odd numbers.

    Returns:
        (after, before, …).
    """
    shortest = min(gradient.shape[3:])
    if shortest <= 2:
        return by_matrices(gradient, x, stride, kernel)
    if shortest >= 4 and x.shape[1] <= FEW_CHANNELS:
        return by_pictures(gradient, x, stride, kernel)
    shape, padding = (gradient.shape[1], x.shape[1], *kernel), [side // 2 for side in kernel]
    return GRADIENTS.conv3d_weight(x, shape, gradient, stride, padding)


def by_pictures(gradient: Tensor, x: Tensor, stride: tuple[int, ...], kernel: tuple[int, ...]) -> Tensor:
    """`weight_gradient` as that of a convolution of pictures, whose channels are the frames that it spans."""
    before, after, (span, *sides) = x.shape[1], gradient.shape[1], kernel
    padded = functional.pad(x.transpose(1, 2), (0, 0, 0, 0, 0, 0, span // 2, span // 2))
    # (N, T', before, H, W, span): what each frame of the output sees.
    seen = padded.unfold(1, span, stride[0])
    pictures = seen.permute(0, 1, 3, 4, 5, 2).flatten(4).flatten(0, 1).permute(0, 3, 1, 2)
    outputs, shape = gradient.transpose(1, 2).flatten(0, 1), (after, span * before, *sides)
    found = GRADIENTS.conv2d_weight(pictures, shape, outputs, stride[1:], [side // 2 for side in sides])
    return found.unflatten(1, (span, before)).transpose(1, 2)


def by_matrices(gradient: Tensor, x: Tensor, stride: tuple[int, ...], kernel: tuple[int, ...]) -> Tensor:
    """`weight_gradient` as a product: the gradient of each output times all that the output sees, added up."""
    margins = [side // 2 for side in reversed(kernel) for _ in range(2)]
    found = gradient.new_zeros(gradient.shape[1], x.shape[1] * math.prod(kernel))
    for outputs, clips in zip(gradient.split(CLIPS_AT_ONCE), x.split(CLIPS_AT_ONCE), strict=True):
        seen = functional.pad(clips, margins)
        for dim, (side, step) in enumerate(zip(kernel, stride, strict=True), start=2):
            seen = seen.unfold(dim, side, step)
        # (N, before, T', H', W', …) to one row for each output, channels last, as they lie in memory.
        rows = seen.permute(0, 2, 3, 4, 5, 6, 7, 1).reshape(-1, found.shape[1])
        found.addmm_(outputs.permute(1, 0, 2, 3, 4).flatten(1), rows)
    return found.view(-1, *kernel, x.shape[1]).permute(0, 4, 1, 2, 3)


def input_gradient(gradient: Tensor, weight: Tensor, stride: tuple[int, ...], size: tuple[int, ...]) -> Tensor:
    """The gradient of a convolution's input, by whichever way is faster.

    Args:
        gradient: (N, after, T', H', W') of the output.
        weight: (after, before, …) with odd sides, where the input was padded by half of each.
        stride: steps in time, down and across.
        size: frames, rows and columns of the input.

    Returns:
        (N, before, T, H, W).
    """
    if weight.shape[1] <= FEW_COLOURS:
        return by_phases(gradient, weight, stride, size)
    padding = [side // 2 for side in weight.shape[2:]]
    return GRADIENTS.conv3d_input((len(gradient), weight.shape[1], *size), weight, gradient, stride, padding)


def by_phases(gradient: Tensor, weight: Tensor, stride: tuple[int, ...], size: tuple[int, ...]) -> Tensor:
    """`input_gradient` as an ordinary convolution without a stride.

    In one dimension, with stride s and 2p + 1 weights, output j sees input i through the weight i − s·j + p:

        gradient of input i  =  Σ_j  gradient of output j · weight[i − s·j + p]

    Write i = s·q + φ, where the phase φ is in 0..s − 1. The weight is then the one at s·(q − j) + φ + p, which
    depends on q and j only by their difference. So all inputs of one phase are an ordinary convolution of the
    outputs' gradients, with every s-th weight, and there are s such phases (a polyphase decomposition). One call
    computes all of them, as s output channels; then the phases of each q are put side by side.
    """
    after, before = weight.shape[:2]
    halves = [side // 2 for side in weight.shape[2:]]
    # q − j is at most p // s, for the first phase, and at least −(p / s rounded up), for the last one: outputs so
    # far behind an input, and so far ahead of it, see the input.
    behind = [half // step for half, step in zip(halves, stride, strict=True)]
    ahead = [-(-half // step) for half, step in zip(halves, stride, strict=True)]
    # With zeros on both sides the kernel has (behind + ahead + 1) · s weights, and the one for q − j and φ lies at
    # s · (q − j + ahead) + φ: a view splits it into differences (t, h, w) and phases (r, s, u).
    margins = [
        (a * step - half, (b + 1) * step - half - 1)
        for half, step, b, a in zip(halves, stride, behind, ahead, strict=True)
    ]
    padded = functional.pad(weight, [zeros for margin in reversed(margins) for zeros in margin])
    (t, r), (h, s), (w, u) = ((b + a + 1, step) for b, a, step in zip(behind, ahead, stride, strict=True))
    # The differences are reversed, since `conv3d` runs over j − q; phases become output channels.
    phases = padded.view(after, before, t, r, h, s, w, u).flip(2, 4, 6).permute(3, 5, 7, 1, 0, 2, 4, 6)
    found = functional.conv3d(gradient, phases.reshape(r * s * u * before, after, t, h, w), padding=ahead)
    # `conv3d` pads both sides alike. Where `ahead` is one more than `behind`, the first result lies before q = 0.
    found = found[:, :, ahead[0] - behind[0] :, ahead[1] - behind[1] :, ahead[2] - behind[2] :]
    # Input s·q + φ is phase φ of step q; beyond the last input there is nothing to keep.
    num_clips, _, *steps = found.shape
    pixels = found.unflatten(1, (r, s, u, before)).permute(0, 4, 5, 1, 6, 2, 7, 3)
    frames, rows, columns = (num * step for num, step in zip(steps, stride, strict=True))
    pixels = pixels.reshape(num_clips, before, frames, rows, columns)
    return pixels[:, :, : size[0], : size[1], : size[2]]
