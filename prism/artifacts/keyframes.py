"""Key-frames as pure mathematics: interpolation weights, rendering, insertion (paper, section 3.1).

A synthetic video of T frames is a dense tensor; only frames that a boolean mask marks as key-frames count. Every
other frame is a linear interpolation of the two key-frames around it:

    s_t = α_t s_{k_i} + (1 − α_t) s_{k_{i+1}},   α_t = (k_{i+1} − t) / (k_{i+1} − k_i)

Rendering is a product with one matrix per video, `clip = weights @ frames`. Columns of frames that are not
key-frames are zero, so no gradient ever reaches such a frame.
"""

import itertools

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate

YCC = torch.tensor([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
"""Matrix from red, green and blue to luma and two chromas (BT.601, full range); `RGB` is its inverse."""
RGB = YCC.inverse()


def evenly_spread(num_videos: int, num_frames: int, num_keyframes: int) -> Tensor:
    """A mask (V, T) with `num_keyframes` evenly spread frames of each video, the first and last among them."""
    times = torch.linspace(0, num_frames - 1, num_keyframes).round().long()
    return torch.zeros(num_videos, num_frames, dtype=torch.bool).index_fill(1, times, True)


def best_placed(clips: Tensor, num_keyframes: int, need: Tensor | None = None) -> Tensor:
    """A mask (V, T) with the `num_keyframes` of each clip whose interpolation has the least squared error.

    The first and the last frame are key-frames; dynamic programming over the last key-frame finds the optimum.

    Args:
        clips: (V, T, C, H, W) float.
        num_keyframes: key-frames of each clip, in 2..T; with `need` the mean over clips.
        need: (V,) weights of the clips' errors; each further key-frame goes to the clip where it removes most.
    """
    num_clips, num_frames = clips.shape[:2]
    errors = torch.full((num_clips, num_frames, num_frames), torch.inf)
    for start, end in itertools.combinations(range(num_frames), 2):
        share = torch.linspace(0, 1, end - start + 1)[1:-1, None, None, None].to(clips)
        between = torch.lerp(clips[:, start : start + 1], clips[:, end : end + 1], share)
        errors[:, start, end] = (between - clips[:, start + 1 : end]).square().flatten(1).sum(1).cpu()
    least, befores, left = errors[:, 0], list[Tensor](), [errors[:, 0, -1]]
    for _ in range(num_frames - 2):
        least, before = (least[:, :, None] + errors).min(dim=1)
        befores.append(before)
        left.append(least[:, -1])
    nums = torch.full((num_clips,), num_keyframes - 2)
    if need is not None:
        # The gains of a clip are made to fall, so that its largest gains belong to its first key-frames.
        gains = -torch.stack(left, dim=1).diff(dim=1).cummax(dim=1).values * need[:, None].cpu()
        best = gains.flatten().topk(int(nums.sum())).indices
        nums = torch.bincount(best // (num_frames - 2), minlength=num_clips)
    mask = torch.zeros(num_clips, num_frames, dtype=torch.bool)
    mask[:, 0] = mask[:, -1] = True
    last = torch.full((num_clips,), num_frames - 1)
    for num, before in reversed([*enumerate(befores)]):
        some = (nums > num).nonzero().flatten()
        last[some] = before[some, last[some]]
        mask[some, last[some]] = True
    return mask


def neighbours(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of the key-frames at or before, and at or after, every frame t: two (V, T) int64 tensors.

    Args:
        mask: (V, T) bool, True at key-frames, including the first and the last frame.
    """
    times = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    # Running maximum of key-frame times, and from the end running minimum. Other frames count as the first or the
    # last frame, which are key-frames anyway.
    before = torch.where(mask, times, 0).cummax(dim=1).values
    after = torch.where(mask, times, mask.shape[1] - 1).flip(1).cummin(dim=1).values.flip(1)
    return before, after


def interpolation_weights(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Matrices (V, T, T) that render clips: [v, t, k] is the weight of key-frame k in frame t (paper, equation 3).

    Args:
        mask: (V, T) bool, True at key-frames, including the first and the last frame.
    """
    before, after = neighbours(mask)
    times = torch.arange(mask.shape[1], device=mask.device)
    # A key-frame is both of its neighbours: its weight is one, and its span of zero must not divide.
    span = (after - before).clamp(min=1)
    alpha = torch.where(after > before, (after - times).to(dtype) / span.to(dtype), 1.0)
    first, second = (times == neighbour.unsqueeze(2) for neighbour in (before, after))
    return alpha.unsqueeze(2) * first + (1 - alpha).unsqueeze(2) * second


def render(frames: Tensor, mask: Tensor) -> Tensor:
    """The clips (V, T, C, H, W) interpolated from key-frames, differentiable with respect to the key-frames.

    Args:
        frames: (V, T, C, H, W) float; only frames marked in `mask` count, the others need only be finite.
        mask: (V, T) bool, True at key-frames, including the first and the last frame.
    """
    return torch.bmm(interpolation_weights(mask, frames.dtype), frames.flatten(2)).view_as(frames)


def enlarge(clips: Tensor, scale: int) -> Tensor:
    """Clips (V, T, C, H, W) with `scale` times their height and width, interpolated bilinearly.

    Each frame is enlarged alone and linearly, so this may come before or after interpolation in time.
    """
    if scale == 1:
        return clips
    # Matrix products are 2.7 times as fast as PyTorch's function, whose gradient on a GPU is not deterministic.
    sides = (torch.eye(side, dtype=clips.dtype, device=clips.device)[None] for side in clips.shape[3:])
    down, across = (interpolate(one, scale_factor=scale, mode="linear", align_corners=False)[0] for one in sides)
    return down.T @ clips @ across


def reduce(clips: Tensor, scale: int) -> Tensor:
    """Clips (V, T, C, H, W) with 1/`scale` of their height and width: each pixel is the mean of scale² pixels."""
    return clips if scale == 1 else avg_pool2d(clips.flatten(0, 1), scale).unflatten(0, clips.shape[:2])


def split_colour(images: Tensor) -> tuple[Tensor, Tensor]:
    """Luma (n, 1, h, w) of images (n, 3, h, w), and chroma (n, 2, ⌈h/2⌉, ⌈w/2⌉), each the mean of four pixels."""
    ycc = torch.einsum("kc,nchw->nkhw", YCC.to(images), images)
    return ycc[:, :1], avg_pool2d(ycc[:, 1:], 2, ceil_mode=True)


def join_colour(luma: Tensor, chroma: Tensor) -> Tensor:
    """Images (n, 3, h, w) from the luma and chroma of `split_colour`; chroma is interpolated bilinearly."""
    height, width = luma.shape[2:]
    ycc = torch.cat([luma, enlarge(chroma[None], 2)[0, :, :, :height, :width]], dim=1)
    return torch.einsum("ck,nkhw->nchw", RGB.to(ycc), ycc)


def inverse_gram(mask: Tensor) -> Tensor:
    """Inverse (V, T, T) of WᵀW for the interpolation weights W of each mask (V, T); identity off the key-frames.

    The gradient of a key-frame sums over all frames that are interpolated from it, so a step along this gradient
    depends on the placement of key-frames. (WᵀW)⁻¹ times the gradient moves the clip along the part of the clip's
    gradient that key-frames as large as the clip can express: the steepest step in the metric of the clip.
    """
    weights = interpolation_weights(mask, torch.float64)
    return torch.linalg.inv(weights.mT @ weights + torch.diag_embed((~mask).double())).float()


def insert(frames: Tensor, mask: Tensor, inserted: Tensor) -> Tensor:
    """Promote interpolated frames to key-frames at their rendered values; return the new mask (paper, equation 7).

    The rendered clip stays unchanged: a new key-frame lies on the line between its neighbours.

    Args:
        frames: (V, T, C, H, W) float; the promoted frames are written in place.
        mask: (V, T) bool, the key-frames so far.
        inserted: (V, T) bool, the frames to promote.
    """
    new = inserted & ~mask
    at = new.nonzero(as_tuple=True)
    before, after = neighbours(mask)
    # The same sum as in `render`, for the promoted frames alone.
    share = interpolation_weights(mask, frames.dtype)[*at, before[at]].view(-1, 1, 1, 1)
    frames[at] = torch.lerp(frames[at[0], after[at]], frames[at[0], before[at]], share)
    return mask | new
