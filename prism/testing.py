"""Checks for custom parts: `check_rule(MyRule(), store)` raises an error if the rule breaks a promise.

    from prism.testing import check_network, check_rule, tiny_store

    def test_my_rule_keeps_the_promises_of_a_rule(tmp_path):
        check_rule(MyRule(), tiny_store(tmp_path / "store"))

Each check takes seconds on a CPU. It raises an AssertionError, or the ConfigError that a run would raise.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from prism.artifacts.store import ClipSource, ClipStore, StoreHeader, clips_csv
from prism.condensation.condense import finished_set, resolve
from prism.condensation.loop import Condensation
from prism.condensation.options import METHODS, CondenseConfig
from prism.condensation.prepare import Setup, check_first_use
from prism.config import with_options
from prism.machine.files import file_sha256
from prism.machine.randomness import generator
from prism.networks.build import build
from prism.networks.network import check_output, use_generator

CPU = torch.device("cpu")
TINY = {"width": 2, "batch_real": 2, "iterations": 4, "static_iterations": 2, "warmup": 0.0, "cooldown": 0.0}
TINY |= {"initial_keyframes": 2, "keyframe_scale": 1, "lr": 1.0}


@contextmanager
def _without_global_draws() -> Iterator[None]:
    before = torch.get_rng_state()
    yield
    assert torch.equal(torch.get_rng_state(), before), "randomness must come from the generator alone"


def tiny_store(
    path: str | Path, classes: int = 2, clips: int = 4, num_frames: int = 8, size: int = 48
) -> ClipStore:
    """Write a store of random pixels: `clips` training clips of each class, one each for validation and test."""
    names = sorted(f"class{label}" for label in range(classes))
    sources = [
        ClipSource(split, name, f"{name}/{split}{i}.mp4", 0, 1, num_frames)
        for split, count in {"train": clips, "val": 1, "test": 1}.items()
        for name in names
        for i in range(count)
    ]
    shape = (len(sources), num_frames, 3, size, size)
    return write_store(path, names, sources, np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))


def write_store(
    path: str | Path,
    classes: Sequence[str],
    sources: Sequence[ClipSource],
    frames: np.ndarray,
    *,
    flip: bool = True,
    std: float = 0.25,
) -> ClipStore:
    """Write a store of frames (N, T, 3, H, W) uint8; `sources` must be sorted by split and class."""
    path = Path(path)
    path.mkdir(parents=True)
    frames.tofile(path / "frames.u8")
    (path / "clips.csv").write_text(clips_csv(sources), encoding="utf-8")
    header = StoreHeader(
        num_frames=frames.shape[1],
        size=(frames.shape[3], frames.shape[4]),
        classes=tuple(classes),
        splits=dict.fromkeys(("train", "val", "test"), 0) | Counter(source.split for source in sources),
        num_skipped=0,
        flip=flip,
        mean=(0.5, 0.5, 0.5),
        std=(std, std, std),
        settings={},
        sha256={name: file_sha256(path / name) for name in ("clips.csv", "frames.u8")},
    )
    (path / "store.json").write_text(header.to_json(), encoding="utf-8")
    return ClipStore.open(path)


def check_rule(rule: Any, store: ClipStore | str | Path) -> None:
    """Check that an insertion rule proposes frames, and always the same frames for the same state."""
    with _without_global_draws():
        _check_condensing(store, insertion=rule)


def check_objective(objective: Any, store: ClipStore | str | Path) -> None:
    """Check that an objective gives a loss per class and the gradient of their sum, the same in every call."""
    with _without_global_draws():
        # Two videos per class, so that a mean over the wrong axis has another shape.
        loop = _check_condensing(store, objective=objective, vpc=2).start(CPU)
        objective, network = loop.objective, loop.networks.draw(1)
        real, clips = objective.real(loop.networks, 1), loop.render().detach().requires_grad_()
        found = objective.match(network, real, clips, loop.chunk)
        assert bool(found.gradients.any()), "the gradients are 0: the losses must depend on the clips"
        step = 1e-3 * found.gradients / found.gradients.norm()
        ahead, behind = (objective.match(network, real, clips + s * step, loop.chunk).losses for s in (1, -1))
        slope, promised = float((ahead - behind).detach().sum()), 2e-3 * float(found.gradients.norm())
        is_near = abs(slope - promised) <= 0.1 * promised + 1e-6
        assert is_near, "the gradients are not those of the sum of the losses"


def check_method(method: Any, store: ClipStore | str | Path) -> None:
    """Check that a method renders clips of the store's shape, resumes from its state, and gives a valid set."""
    with _without_global_draws():
        # Options that the method sets win over the values in TINY.
        brought = {key: value for key, value in METHODS.options_of(method).items() if key in TINY}
        setup = _check_condensing(store, method=method, vpc=2, **brought)
        assert setup.start(CPU).render().requires_grad, "rendered clips must be differentiable in what is trained"


def check_network(network: Any, num_frames: int = 8, size: int | tuple[int, int] = 48) -> None:
    """Check that a network embeds and classifies each clip alone, draws from its generator, and has gradients."""
    with _without_global_draws():
        size = (size, size) if isinstance(size, int) else size  # A run gives height and width.
        one, other = (build(network, num_classes=3, num_frames=num_frames, size=size).eval() for _ in range(2))
        clips = torch.randn((4, 3, num_frames, *size), generator=generator(0, "clips")).requires_grad_()
        check_output(one, "embed", embeddings := one.embed(clips), clips)
        check_output(one, "forward", logits := one(clips), clips)
        is_finite = bool(embeddings.isfinite().all() and logits.isfinite().all())
        assert is_finite, "embeddings and logits must be finite"
        assert torch.equal(other(clips), logits), "the same generator must give the same values"
        for given, apply in ((embeddings, one.embed), (logits, one)):
            alone = torch.cat([apply(clip[None]) for clip in clips])
            assert torch.allclose(alone, given, atol=1e-4), "in eval mode no clip may depend on those beside it"
        said = "embeddings must be differentiable in the clips"
        assert embeddings.requires_grad, said
        (gradient,) = torch.autograd.grad(embeddings.sum(), clips, materialize_grads=True)
        assert bool(gradient.any() and gradient.isfinite().all()), said
        use_generator(one, generator(0, "dropout"))
        loss = cross_entropy(one.train()(clips), torch.tensor([0, 1, 2, 0]))
        found = torch.autograd.grad(loss, [p for p in one.parameters() if p.requires_grad], materialize_grads=True)
        assert any(bool(g.any()) for g in found), "the logits must be differentiable in the weights"


def _check_condensing(store: ClipStore | str | Path, **options: Any) -> Setup:
    """Check the first use of parts, and that a resumed run gives the same bytes as an uninterrupted run."""
    store = ClipStore.of(store)
    setup = Setup(store, resolve(with_options(CondenseConfig(), TINY | options)))
    whole, first, second = (setup.start(CPU) for _ in range(3))
    for loop in (whole, first, second):
        loop.chunk.threads = 1  # With more threads each may get a single class, which hides dependence on others.
    one, other = (check_first_use(loop) for loop in (whole, second))
    is_finite = bool(one.losses.isfinite().all() and one.gradients.isfinite().all())
    assert is_finite, "losses and their gradients must be finite"
    assert torch.equal(one.losses, other.losses), "an iteration must not depend on those before it"
    for _ in range(2):
        first.step()
    second.restore(first.iteration, {name: tensor.clone() for name, tensor in first.tensors().items()})
    made, resumed = (finished_set(setup, _finished(loop), {}) for loop in (whole, second))
    said = "a resumed run must give the bytes of one that was not stopped: parts keep nothing from call to call"
    assert resumed.to_bytes() == made.to_bytes(), said
    if setup.independent_classes and len(store.classes) > 1:
        alone = _finished(setup.start(CPU, range(1, 2)))
        own, among_others = (loop.videos.render(alone.num_iterations) for loop in (alone, whole))
        said = "a class alone must give the videos that it gives among others, or independent_classes be False"
        assert torch.allclose(among_others[len(own) : 2 * len(own)], own, atol=1e-4), said
    return setup


def _finished(loop: Condensation) -> Condensation:
    while loop.iteration < loop.num_iterations:
        loop.step()
    return loop
