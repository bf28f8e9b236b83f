"""CNN+GRU and CNN+LSTM are the published ones, to the last weight."""

import pytest
import torch
from torch import nn

from prism.networks.build import build
from tests.networks.test_networks import num_parameters

BLOCKS = (3 * 9 * 128 + 128) + 2 * (128 * 9 * 128 + 128) + 3 * (128 + 128)
"""Three convolutions of 3×3 with biases, three norms with a scale and a shift for each channel."""
FEATURES = 128 * 8 * 8
SHAPES = [(16, 112), (8, 64)]


def small(name: str, size: int = 16, seed: int = 0, **options: int):
    return build(name, num_classes=3, num_frames=4, size=size, width=4, seed=seed, **options)


@pytest.mark.parametrize(("num_frames", "size"), SHAPES)
@pytest.mark.parametrize(
    ("name", "gates", "hidden", "weights"),
    [("cnn-gru", 3, FEATURES // 8, 28_668_466), ("cnn-lstm", 4, FEATURES, 537_645_618)],
)
def test_the_hidden_size_and_the_weights_are_as_many_as_published(name, gates, hidden, weights, num_frames, size):
    network = build(name, "meta", num_classes=50, num_frames=num_frames, size=size)
    assert network.embed_dim == hidden
    recurrent = gates * hidden * (FEATURES + hidden + 2)
    assert num_parameters(network) == BLOCKS + recurrent + hidden * 50 + 50 == weights


@pytest.mark.parametrize(("num_frames", "size"), SHAPES)
def test_every_frame_goes_through_the_blocks_at_64_pixels(num_frames, size):
    network = build("cnn-gru", "meta", num_classes=50, num_frames=num_frames, size=size)
    x, shapes = network.crop(torch.empty(2, 3, num_frames, size, size, device="meta")), []
    assert x.shape == (2, 3, num_frames, 64, 64)
    x = x.transpose(1, 2).flatten(0, 1)
    for layer in network.blocks:
        x = layer(x)
        if isinstance(layer, nn.AvgPool2d):
            shapes.append(tuple(x.shape[1:]))
    assert shapes == [(128, 32, 32), (128, 16, 16), (128, 8, 8)]


@pytest.mark.parametrize("name", ["cnn-gru", "cnn-lstm"])
def test_clips_of_112_pixels_lose_24_on_each_side_and_others_none(name):
    network, same = small(name, size=112), small(name, size=64)
    clips = torch.rand(2, 3, 4, 112, 112, requires_grad=True)
    inside = clips[..., 24:88, 24:88]
    torch.testing.assert_close(network(clips), same(inside))
    network(clips).sum().backward()
    assert clips.grad[..., 24:88, 24:88].abs().sum() > 0
    clips.grad[..., 24:88, 24:88] = 0
    assert not clips.grad.any()
    for size in (64, 111, 113, (112, 64)):
        assert build(name, "meta", num_classes=2, num_frames=4, size=size).margin == 0


@pytest.mark.parametrize(("name", "cell"), [("cnn-gru", nn.GRUCell), ("cnn-lstm", nn.LSTMCell)])
def test_the_embedding_is_the_mean_over_time_of_a_recurrence_by_hand(name, cell):
    network, clips = small(name, hidden=5), torch.rand(2, 3, 4, 16, 16)
    step = cell(4 * 2 * 2, 5)
    step.load_state_dict({key.removesuffix("_l0"): value for key, value in network.recurrent.state_dict().items()})
    state, outputs = None, []
    for frame in clips.unbind(dim=2):
        state = step(network.blocks(frame).flatten(1), state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    embedding = torch.stack(outputs).mean(dim=0)
    torch.testing.assert_close(network.embed(clips), embedding)
    torch.testing.assert_close(network(clips), network.classifier(embedding))


def test_the_norm_is_over_each_channel_of_each_frame():
    network = small("cnn-gru")
    frames = torch.rand(3, 3, 16, 16)
    normed = network.blocks[:2](frames)
    torch.testing.assert_close(normed.mean(dim=(2, 3)), torch.zeros(3, 4), rtol=0, atol=1e-5)
    torch.testing.assert_close(normed.var(dim=(2, 3), unbiased=False), torch.ones(3, 4), rtol=0, atol=2e-2)


@pytest.mark.parametrize("name", ["cnn-gru", "cnn-lstm"])
def test_training_and_evaluation_are_the_same_function(name):
    network, clips = small(name), torch.rand(2, 3, 4, 16, 16)
    trains = network.train()(clips)
    assert torch.equal(network.eval()(clips), trains)
    assert network.recurrent.training  # cuDNN differentiates in this mode only
