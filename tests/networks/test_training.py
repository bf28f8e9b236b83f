"""Training one network: the published schedule, nothing but its seed, and it learns."""

import math

import pytest
import torch
from settings import printed
from torch.nn import functional

from prism.artifacts.clips import Clips, Normalisation, flip_at_random, shift_at_random, to_model_input
from prism.errors import DivergedError
from prism.machine.randomness import generator
from prism.networks import training as module
from prism.networks.build import build
from prism.networks.initial import initialise
from prism.networks.options import Schedule
from prism.networks.training import SGD, guessed_right, outputs_of, train

PLAIN = Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def network(num_classes: int = 2, width: int = 2) -> torch.nn.Module:
    return build("convnet3d", num_classes=num_classes, num_frames=4, size=43, width=width)


def random_clips(num: int, num_classes: int = 2, seed: int = 0) -> Clips:
    frames = torch.randint(0, 256, (num, 4, 3, 43, 43), generator=generator(seed, "clips"), dtype=torch.uint8)
    return Clips(frames, torch.arange(num) % num_classes, tuple(f"c{i}" for i in range(num_classes)))


def trained_by_hand(
    net: torch.nn.Module, clips: Clips, epochs: int, lr: float, seed: int, longest: float = math.inf
) -> list[torch.Tensor]:
    """v ← 0.9 v + (g + 5e-4 w), w ← w − lr v on all clips at once; a tenth of lr from the middle on.

    All of g together is no longer than `longest`.
    """
    initialise(net, generator(seed, "init"))
    values, velocity = list(net.parameters()), [torch.zeros_like(p) for p in net.parameters()]
    for epoch in range(epochs):
        rate = lr if epoch < epochs / 2 else lr / 10
        loss = functional.cross_entropy(net(to_model_input(clips.frames, PLAIN)), clips.labels)
        gradients = torch.autograd.grad(loss, values)
        share = min(1.0, longest / float(torch.cat([g.flatten() for g in gradients]).norm()))
        for value, v, g in zip(values, velocity, gradients, strict=True):
            with torch.no_grad():
                v.mul_(0.9).add_(share * g + 5e-4 * value)
                value.sub_(rate * v)
    return [value.detach().clone() for value in values]


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [(1, [0.1]), (2, [0.1, 0.01]), (5, [0.1, 0.1, 0.01, 0.01, 0.01]), (4, [0.1, 0.1, 0.01, 0.01])],
)
def test_the_learning_rate_falls_to_a_tenth_halfway(monkeypatch, epochs, expected):
    found: list[float] = []
    monkeypatch.setattr(SGD, "step", lambda self, rates: found.extend(rates))
    train(network(), random_clips(2), PLAIN, Schedule(epochs, 256, lr=0.1), seed=0, flip=False)
    assert found == pytest.approx(expected)


def test_an_epoch_visits_every_clip_once_in_another_order_each_time():
    clips, net, seen = random_clips(6), network(), []
    net.register_forward_pre_hook(lambda _, x: seen.append((100 * x[0].mean(dim=(1, 2, 3, 4))).int().tolist()))
    frames = (torch.arange(6) * 20).to(torch.uint8).view(6, 1, 1, 1, 1).expand(6, 4, 3, 43, 43)
    shades = Clips(frames, clips.labels, clips.classes)
    train(net, shades, PLAIN, Schedule(3, batch_size=4, lr=1e-6), seed=0, flip=False)
    assert [len(batch) for batch in seen] == [4, 2] * 3
    epochs = [seen[i] + seen[i + 1] for i in (0, 2, 4)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
    assert len(set(epochs[0])) == 6
    assert len({tuple(epoch) for epoch in epochs}) > 1


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_every_epoch_draws_its_clips_and_shifts_them_anew_by_up_to_the_share_that_the_options_say(shift):
    net, seen, schedule = network(), [], Schedule(3, batch_size=4, lr=1e-6, shift=shift)
    net.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    train(net, lambda draw: random_clips(4, seed=draw.initial_seed()), PLAIN, schedule, seed=5, flip=False)
    order, shifts = generator(5, "order"), generator(5, "shift")
    for epoch, shown in enumerate(seen):
        clips = random_clips(4, seed=generator(5, "clips", epoch).initial_seed())
        frames = clips.frames[torch.randperm(4, generator=order)]
        assert torch.equal(shown, to_model_input(shift_at_random(frames, shift, shifts), PLAIN))


def test_a_shift_moves_each_clip_by_whole_frames_and_pixels_and_repeats_its_edges():
    where = torch.stack(torch.meshgrid(*map(torch.arange, (6, 8, 10)), indexing="ij"), dim=1)
    shown = shift_at_random(where.expand(300, *where.shape), 0.3, generator(0, "shift"))
    for axis, (side, most) in enumerate(((6, 2), (8, 2), (10, 3))):
        steps = side // 2 - shown[:, 3, axis, 4, 5]
        assert shown[:, :, axis].equal((where[:, axis] - steps[:, None, None, None]).clamp(0, side - 1))
        assert sorted(set(steps.tolist())) == [*range(-most, most + 1)]


def parameters_after(seed: int, *, flip: bool = True, before: float = 0.0) -> list[torch.Tensor]:
    net = network()
    for parameter in net.parameters():
        parameter.data.fill_(before)
    train(net, random_clips(4), PLAIN, Schedule(2, batch_size=2, lr=0.05), seed=seed, flip=flip)
    return [parameter.detach().clone() for parameter in net.parameters()]


def test_training_depends_on_its_seed_and_on_nothing_before():
    torch.manual_seed(0)
    first = parameters_after(1)
    torch.manual_seed(99)
    again, other = parameters_after(1, before=7.0), parameters_after(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_clips_are_flipped_only_where_that_keeps_the_labels_and_half_of_them(monkeypatch):
    shown = flip_at_random(torch.arange(2.0).expand(2000, 2), generator(0, "flip"))
    assert shown[:, 0].mean() == pytest.approx(0.5, abs=0.05)
    flipped = []
    monkeypatch.setattr(module, "flip_at_random", lambda frames, _: flipped.append(len(frames)) or frames.flip(-1))
    without = parameters_after(0, flip=False)
    assert flipped == []
    with_flips = parameters_after(0, flip=True)
    assert flipped == [2] * 4
    assert not torch.equal(without[0], with_flips[0])


def test_the_returned_loss_is_the_mean_over_the_clips_of_the_last_epoch():
    clips, net = random_clips(5), network()
    net.dropout.probability = 0.0
    # So small a rate leaves the network as it was: the loss can be computed afterwards.
    loss = train(net, clips, PLAIN, Schedule(1, 2, lr=1e-30), seed=0, flip=False)
    expected = functional.cross_entropy(net(to_model_input(clips.frames, PLAIN)), clips.labels)
    assert loss == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("limit", ["", "--max-grad-norm 20 or "])
def test_a_training_that_diverges_names_the_epoch_and_a_remedy(limit):
    schedule = Schedule(5, 256, lr=1e30, max_grad_norm=0.0 if limit else 20.0)
    says = rf"loss of seed 0 is not finite in epoch \d+\. Try {limit}--lr 1e\+29"
    with pytest.raises(DivergedError, match=says):
        train(network(), random_clips(4), PLAIN, schedule, seed=0, flip=False)


@pytest.mark.parametrize("longest", [0.0, 0.01, 0.3])
def test_training_is_sgd_with_momentum_decay_and_gradients_no_longer_than_the_schedule_says_by_hand(longest):
    clips, net = random_clips(4), network()
    net.dropout.probability = 0.0
    # As many steps as make the decay larger than what is tolerated.
    expected = trained_by_hand(net, clips, epochs=12, lr=0.05, seed=3, longest=longest or math.inf)
    schedule = Schedule(12, 256, lr=0.05, max_grad_norm=longest)
    train(net, clips, PLAIN, schedule, seed=3, flip=False)
    for ours, by_hand in zip(net.parameters(), expected, strict=True):
        torch.testing.assert_close(ours, by_hand, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 100])
def test_scores_do_not_depend_on_the_batch_size(batch_size):
    net, clips = network(3), random_clips(7, 3)
    initialise(net, generator(0, "init"))
    whole = outputs_of(net, clips, PLAIN, 7)
    logits = outputs_of(net, clips, PLAIN, batch_size)
    torch.testing.assert_close(logits, whole, rtol=1e-4, atol=1e-6)
    assert torch.equal(guessed_right(logits, clips.labels, 1), guessed_right(whole, clips.labels, 1))
    mirrored = Clips(flip_at_random(clips.frames, generator(0, "flip")), clips.labels, clips.classes)
    assert outputs_of(net, clips, PLAIN, 7, generator(0, "flip")).equal(outputs_of(net, mirrored, PLAIN, 7))


def test_a_guess_is_right_where_the_label_is_among_the_k_largest_logits():
    logits = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [2.0, 3.0, 1.0], [3.0, 1.0, 2.0]])
    labels = torch.tensor([0, 0, 0, 2])
    right = {1: [True, False, False, False], 2: [True, False, True, True], 3: [True] * 4, 5: [True] * 4}
    for k, wanted in right.items():
        assert guessed_right(logits, labels, k).tolist() == wanted


def tensors() -> list[torch.Tensor]:
    return [torch.randn(4, generator=generator(seed, "init")).requires_grad_() for seed in range(3)]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_every_step_is_that_of_sgd_to_the_last_bit(momentum, weight_decay):
    ours, theirs = tensors(), tensors()
    optimizer = SGD([ours[:2], ours[2:]], momentum, weight_decay)
    groups = [{"params": theirs[:2], "lr": 0.1}, {"params": theirs[2:], "lr": 0.02}]
    reference = torch.optim.SGD(groups, momentum=momentum, weight_decay=weight_decay)
    for step in range(5):
        optimizer.zero_grad()
        reference.zero_grad()
        for group in (ours, theirs):
            # The first tensor rests now and then.
            sum(tensor.pow(3).sum() for tensor in group[step % 2 :]).backward()
        optimizer.step([0.1, 0.02])
        reference.step()
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_tensor_without_a_gradient_rests_whatever_its_momentum():
    (tensor,) = moved = tensors()[:1]
    optimizer = SGD([moved], momentum=0.9)
    tensor.sum().backward()
    optimizer.step([0.1])
    before, momentum = tensor.detach().clone(), optimizer.momentum_buffers[tensor].clone()
    optimizer.zero_grad()
    optimizer.step([0.1])
    assert torch.equal(tensor, before)
    assert torch.equal(optimizer.momentum_buffers[tensor], momentum)


@pytest.mark.parametrize(
    ("call", "absent"),
    [
        ("condense({store!r}, width=4, iterations=1, batch_real=2, progress=False)", {"torch._dynamo"}),
        ("evaluate(None, {store!r}, train={store!r}, width=4, epochs=1, seeds=1)", {"torch._dynamo", "sympy"}),
    ],
)
def test_neither_condensing_nor_evaluating_imports_the_compiler_of_pytorch(make_store, call, absent):
    code = f"import sys, prism\nprism.{call.format(store=str(make_store().path))}\n"
    assert printed(f"{code}print(sys.modules.keys() & {absent} or '')").splitlines()[-1] == ""
