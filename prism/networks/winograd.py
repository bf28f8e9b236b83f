"""A convolution of clips with half of the products: Winograd's minimal filtering along time.

Four frames of an output see six of the input, each of them three, through one tap of the weights each. That makes
twelve products, where a product is a convolution of a picture. Six are enough (Lavin and Gray, arXiv 1509.09308,
F(4, 3)):

    output  =  OUTPUT · ((TAPS · weights) ∗ (INPUT · frames))

Six mixtures of the frames are convolved with six mixtures of the taps, and four mixtures of the results are the
output. It is the same sum in another order. The transposed matrices give the gradients.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_legacy_batchedtensor
from torch.nn import functional

from prism.networks.gradients import FEW_COLOURS, by_phases

Matrix = Sequence[Sequence[float]]
Rows = Sequence[Sequence[tuple[float, int]]]
"""A matrix as `mix` takes it: how many times a row counts which part. What counts once comes first."""
INPUT: Matrix = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
TAPS: Matrix = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
OUTPUT: Matrix = (
    (1, 1, 1, 1, 1, 0),
    (0, 1, -1, 2, -2, 0),
    (0, 1, 1, 4, 4, 0),
    (0, 1, -1, 8, -8, 1),
)


def rows_of(matrix: Matrix) -> Rows:
    """A matrix without its zeros."""
    terms = [[(times, index) for index, times in enumerate(row) if times] for row in matrix]
    return [sorted(row, key=lambda term: term[0] != 1) for row in terms]


def transposed(matrix: Matrix) -> Rows:
    """The rows of a transposed matrix."""
    return rows_of(list(zip(*matrix, strict=True)))


OF_INPUT, OF_TAPS, OF_OUTPUT = map(rows_of, (INPUT, TAPS, OUTPUT))
TO_INPUT, TO_TAPS, TO_OUTPUT = map(transposed, (INPUT, TAPS, OUTPUT))
SPAN, TAKEN, TILE = 3, 6, 4
"""Taps of the weights, frames that a tile takes, and frames that it makes."""
LEAST_SAVED, LEAST_POSITIONS = 12_000_000, 16
"""Multiply-adds of a clip from which on fewer of them are worth the mixing, and rows times columns of an output of
which oneDNN convolves pictures as fast as clips."""
BYTES_AT_ONCE = 16 * 2**20
"""Of the mixtures of so many clips as are convolved together; a clip may have more."""


def pays(clips: Sequence[int], weight: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether `convolve` is sooner. It does not ask how many clips there are: that may not change how one rounds.

    Args:
        clips: their shape, (N, before, T, H, W).
        weight: its shape, (after, before, frames, rows, columns).
        stride: steps in time, down and across.
    """
    num_frames, *sides = clips[2:]
    channels, span, taps = weight[0] * weight[1], weight[2], math.prod(weight[3:])
    positions = math.prod(-(-side // step) for side, step in zip(sides, stride[1:], strict=True))
    # Nothing is multiplied with the margins in time, which are zeros.
    saved = SPAN * num_frames - 2 - TAKEN * _tiles(num_frames)
    is_alike = span == SPAN and stride[0] == 1 and positions >= LEAST_POSITIONS
    return is_alike and saved * positions * channels * taps >= LEAST_SAVED


def _tiles(num_frames: int) -> int:
    return -(-num_frames // TILE)


def is_transformed(tensor: Tensor) -> bool:
    """Whether a transform of `torch.func`, or a batch of gradients, is at work; neither takes steps of our own."""
    return torch._C._are_functorch_transforms_active() or is_legacy_batchedtensor(tensor)


class Convolution(torch.autograd.Function):
    """`functional.conv3d` with three taps in time, without a stride there, padded by half a kernel.

    It rounds two to four times as much: 1e-6 of a result's norm in float32. That is the norm of all four frames of
    a tile: where one is a million times as large as its neighbours, little is left of them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...]) -> Tensor:
        """(N, before, T, H, W) to (N, after, T, H / stride, W / stride), rounded up, in channels last."""
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        ctx.size, ctx.stride = x.shape[2:], stride
        num_frames, *sides = x.shape[2:]
        sides = [-(-side // step) for side, step in zip(sides, stride[1:], strict=True)]
        taps = _mixed_taps(weight)
        found = x.new_empty(len(x), TILE * _tiles(num_frames), *sides, len(weight))
        at_once = _clips_at_once(x.shape[1] * math.prod(x.shape[3:]), found)
        for clips, made in zip(x.split(at_once), found.split(at_once), strict=True):
            _fill(made, clips, taps, bias, stride[1:])
        return found[:, :num_frames].contiguous().permute(0, 4, 1, 2, 3)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the clips, the weights and the bias, those that are asked for."""
        (gradient,), (x, weight) = gradients, ctx.saved_tensors
        to_input, to_weight, to_bias, _ = ctx.needs_input_grad
        (num_frames, *sides), (_, *stride) = ctx.size, ctx.stride
        before, taps = weight.shape[1], _mixed_taps(weight)
        if torch.is_grad_enabled() or is_transformed(gradient):
            # It will be differentiated itself, as by gradient matching, or computed for many outputs at once.
            # PyTorch can do that with its own gradient.
            padding = [side // 2 for side in weight.shape[2:]]
            clips = gradient.new_empty(1).expand(len(gradient), before, *ctx.size) if x is None else x
            plain, wanted = torch.ops.aten.convolution_backward, (to_input, to_weight, to_bias)
            return *plain(
                gradient,
                clips,
                weight,
                weight.shape[:1],
                ctx.stride,
                padding,
                (1, 1, 1),
                False,
                (0, 0, 0),
                1,
                wanted,
            ), None
        outputs = _padded(gradient, 0, -num_frames % TILE)
        of_taps = [torch.zeros_like(each) for each in taps] if to_weight else []
        of_input = outputs.new_zeros(len(gradient), outputs.shape[1] + 2, *sides, before) if to_input else None
        at_once = _clips_at_once(before * math.prod(sides), outputs)
        for first in range(0, len(gradient) if to_input or to_weight else 0, at_once):
            part = slice(first, first + at_once)
            seen = _seen(x[part]) if to_weight else None
            place = None if of_input is None else of_input[part]
            _differentiate(outputs[part], seen, taps, stride, of_taps, place)
        return (
            None if of_input is None else of_input[:, 1 : num_frames + 1].permute(0, 4, 1, 2, 3),
            torch.stack(mix(TO_TAPS, of_taps), dim=2) if to_weight else None,
            gradient.sum(dim=(0, 2, 3, 4)) if to_bias else None,
            None,
        )


convolve = Convolution.apply


def _fill(
    outputs: Tensor, clips: Tensor, taps: Sequence[Tensor], bias: Tensor | None, stride: Sequence[int]
) -> None:
    """Compute the outputs (n, T', H', W', after) of some clips."""
    padding = [side // 2 for side in taps[0].shape[2:]]
    # The second product counts once in every frame of the output.
    biases = [None, bias, None, None, None, None]
    products = [
        _frames(functional.conv2d(pictures, each, one, stride, padding), _tiles(clips.shape[2]))
        for pictures, each, one in zip(_seen(clips), taps, biases, strict=True)
    ]
    mix(OF_OUTPUT, products, _slices(outputs, TILE))


def _differentiate(
    outputs: Tensor,
    seen: Sequence[Tensor] | None,
    taps: Sequence[Tensor],
    stride: Sequence[int],
    of_taps: Sequence[Tensor],
    of_input: Tensor | None,
) -> None:
    """Add to the gradients of the taps and of the padded input (n, T' + 2, H, W, before), if they are asked for.

    Args:
        outputs: the gradient of some clips' outputs (n, T', H', W', after).
        seen: what the taps had seen of them; None where their gradients are not asked for.
    """
    tiles, padding = outputs.shape[1] // TILE, [side // 2 for side in taps[0].shape[2:]]
    is_slow = of_input is not None and of_input.shape[4] <= FEW_COLOURS
    wanted = of_input is not None and not is_slow, seen is not None, False
    mixtures = []
    for index, product in enumerate(map(_pictures, mix(TO_OUTPUT, _slices(outputs, TILE)))):
        if seen is not None:
            pictures = seen[index]
        else:
            assert of_input is not None
            # Only its shape is asked for.
            rows, columns, before = of_input.shape[2:]
            pictures = product.new_empty(1).expand(len(product), before, rows, columns)
        of_pictures, of_weights, _ = torch.ops.aten.convolution_backward(
            product, pictures, taps[index], None, stride, padding, (1, 1), False, (0, 0), 1, wanted
        )
        if is_slow:
            sides = 1, *pictures.shape[2:]
            of_pictures = by_phases(product[:, :, None], taps[index][:, :, None], (1, *stride), sides)[:, :, 0]
        if seen is not None:
            of_taps[index].add_(of_weights)
        if of_input is not None:
            mixtures.append(_frames(of_pictures, tiles))
    if of_input is not None:
        for total, one in zip(_slices(of_input, TAKEN), mix(TO_INPUT, mixtures), strict=True):
            total += one


def mix(rows: Rows, parts: Sequence[Tensor], into: Sequence[Tensor | None] | None = None) -> list[Tensor]:
    """One sum of the parts for each row, in new memory or in that which is given."""
    made, places = [], [None] * len(rows) if into is None else into
    for ((times, index), *others), place in zip(rows, places, strict=True):
        if times == 1 and others:
            (again, other), *others = others
            total = torch.add(parts[index], parts[other], alpha=again, out=place)
        else:
            total = torch.mul(parts[index], times, out=place)
        for again, other in others:
            total.add_(parts[other], alpha=again)
        made.append(total)
    return made


def _clips_at_once(taken: int, outputs: Tensor) -> int:
    """Clips that are convolved together, whose frames hold so many numbers, to outputs (N, T', H', W', after)."""
    most = max(taken, math.prod(outputs.shape[2:]))
    return max(1, BYTES_AT_ONCE // (4 * TAKEN * (outputs.shape[1] // TILE) * most))


def _mixed_taps(weight: Tensor) -> list[Tensor]:
    """Weights (after, before, 3, …) as six of pictures (after, before, …)."""
    return [taps.contiguous(memory_format=torch.channels_last) for taps in mix(OF_TAPS, weight.unbind(2))]


def _seen(clips: Tensor) -> list[Tensor]:
    """Clips (n, before, T, H, W) as six mixtures of their frames, pictures (n · tiles, before, H, W)."""
    num_frames = clips.shape[2]
    padded = _padded(clips, 1, TILE * _tiles(num_frames) + 1 - num_frames)
    return [_pictures(each) for each in mix(OF_INPUT, _slices(padded, TAKEN))]


def _padded(clips: Tensor, ahead: int, behind: int) -> Tensor:
    """Clips (n, channels, T, H, W) as (n, T + zeros, H, W, channels)."""
    frames = clips.permute(0, 2, 3, 4, 1)
    if not ahead and not behind:
        return frames.contiguous()
    num_clips, num_frames, *shape = frames.shape
    padded = frames.new_empty(num_clips, ahead + num_frames + behind, *shape)
    padded[:, :ahead], padded[:, ahead + num_frames :] = 0, 0
    padded[:, ahead : ahead + num_frames] = frames
    return padded


def _slices(frames: Tensor, count: int) -> list[Tensor]:
    """The first, second, … frame of every tile: of frames (n, T', …), (n, tiles, …) each."""
    tiles = frames.shape[1] // TILE
    return [frames[:, index::TILE][:, :tiles] for index in range(count)]


def _pictures(frames: Tensor) -> Tensor:
    """(n, tiles, rows, columns, channels) as pictures (n · tiles, channels, rows, columns)."""
    return frames.flatten(0, 1).permute(0, 3, 1, 2)


def _frames(pictures: Tensor, tiles: int) -> Tensor:
    """What `_pictures` had been given."""
    return pictures.permute(0, 2, 3, 1).unflatten(0, (-1, tiles))
