"""Checks for a part of your own: `check_rule(MyRule())` fails with a sentence where the part breaks a promise.

    from prism.testing import check_network, check_rule, tiny_store

    def test_my_rule_keeps_the_promises_of_a_rule(tmp_path):
        check_rule(MyRule(), tiny_store(tmp_path / "store"))

The loop relies on these promises. Each check runs in seconds on a CPU, and raises AssertionError.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from prism.artifacts import STORAGES
from prism.artifacts.clips import Normalisation
from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import Encoding
from prism.artifacts.store import ClipSource, ClipStore, StoreHeader, clips_csv
from prism.condensation.checkpoint import Checkpoint
from prism.condensation.class_means import whole_clips
from prism.condensation.loop import Condensation, check_proposed, comparing
from prism.condensation.options import METHODS, OBJECTIVES, RULES, CondenseConfig, settled
from prism.condensation.rules import Conflict, Occasion
from prism.config import with_options
from prism.errors import OutputError, PrismError
from prism.ingestion.options import LAYOUTS
from prism.ingestion.splits import check_listing
from prism.machine.files import file_sha256
from prism.machine.randomness import generator, skip
from prism.networks.build import build
from prism.networks.network import check_embeddings, check_logits, use_generator
from prism.networks.options import NETWORKS
from prism.parts import Parts
from prism.selection.options import SELECTIONS
from prism.selection.select import checked_choice

CPU = torch.device("cpu")
TINY = {
    "width": 2,
    "batch_real": 2,
    "iterations": 4,
    "static_iterations": 2,
    "initial_keyframes": 2,
    "keyframe_scale": 1,
    "lr": 1.0,
    "warmup": 0.0,
    "cooldown": 0.0,
}


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Whatever a part raises, the check of it fails."""
    try:
        yield
    except AssertionError:
        raise
    except PrismError as error:
        raise AssertionError(str(error)) from error
    except Exception as error:
        raise AssertionError(f"the part fails: {type(error).__name__}: {error}") from error


def tiny_store(path: Path, classes: int = 2, clips: int = 4, num_frames: int = 8, size: int = 48) -> ClipStore:
    """Write a store of random pixels: `clips` training clips of each class, one each for validation and test."""
    names = sorted(f"class{label}" for label in range(classes))
    sources = [
        ClipSource(split, name, f"{name}/{split}{i}.mp4", 0, 1, num_frames)
        for split, count in {"train": clips, "val": 1, "test": 1}.items()
        for name in names
        for i in range(count)
    ]
    shape = (len(sources), num_frames, 3, size, size)
    frames = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    return write_store(path, names, sources, frames)


def write_store(
    path: Path,
    classes: Sequence[str],
    sources: Sequence[ClipSource],
    frames: np.ndarray,
    *,
    flip: bool = True,
    std: float = 0.25,
) -> ClipStore:
    """Write a store of clips that no video was decoded for.

    Args:
        path: the folder to make.
        classes: the class names, sorted.
        sources: what each clip is, sorted by split and class.
        frames: (N, T, 3, H, W) uint8 in their order.
        flip: whether a horizontal flip keeps the labels.
        std: deviation of the pixels around 0.5 that the store claims for each channel.

    Raises:
        OutputError: the folder exists.
    """
    if path.exists():
        raise OutputError(f"store '{path}' exists already. Delete it, or choose another path.")
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


def check_name(parts: Parts, part: Any) -> None:
    """A part is found again under the name that files record, unless it was defined inside a function."""
    name = parts.name_of(part)
    if "<locals>" not in name and "<lambda>" not in name:
        # A network stays a class until it is built for clips of some size.
        again = parts.resolve(name)[0] if isinstance(part, type) else parts.make(name, SimpleNamespace())
        assert parts.name_of(again) == name, f"{name} is another part when it is looked up"


@_in_a_sentence()
def check_rule(rule: Any, store: ClipStore) -> None:
    """An insertion rule proposes frames, draws from nothing but its generator, and leaves what it judges alone."""
    check_name(RULES, rule)
    config = _condensing(insertion=rule)
    rule.check(store, config)
    mask = torch.zeros(4, store.num_frames, dtype=torch.bool)
    mask[:, [0, -1]] = True
    mask[1, 2] = True
    gradients = torch.randn((*mask.shape, 3, 4, 4), generator=generator(0, "gradients"))
    before = gradients.clone()

    def propose() -> Tensor:
        conflict = Conflict.measure(gradients, mask)
        return rule.propose(Occasion(gradients, conflict, 1, 2, store, config, lambda: generator(0, "draw")))

    proposed = _drawing_nothing_global(propose)
    check_proposed(proposed, config, mask)
    assert torch.equal(propose(), proposed), "the same occasion must give the same proposal"
    assert torch.equal(gradients, before), "a rule must not change the gradients that it judges"
    for own in (slice(0, 2), slice(2, 4)) if rule.independent_classes else ():
        before_it, conflict = mask[: own.start].numel(), Conflict.measure(gradients[own], mask[own])
        draw = partial(skip, generator(0, "draw"), before_it)
        alone = rule.propose(Occasion(gradients[own], conflict, 1, 1, store, config, draw))
        said = "a rule must judge every video by itself, and draw so, or independent_classes be False"
        assert torch.equal(alone, proposed[own]), said
    _check_resumes(store, config)


@_in_a_sentence()
def check_objective(objective: Any, store: ClipStore) -> None:
    """An objective gives a loss for each class and the gradient of their sum, the same whenever it is asked."""
    check_name(OBJECTIVES, objective)
    config, classes = _condensing(objective=objective), range(len(store.classes))
    compare = comparing(objective, store, config, CPU, classes)
    clips = torch.randn((len(classes), store.num_frames, 3, *store.size), generator=generator(0, "clips"))
    before = clips.clone()
    found = _drawing_nothing_global(lambda: compare(clips, 1, generator(0, "draw"), whole_clips))
    assert torch.equal(clips, before), "an objective must not change the clips that it compares"
    assert bool(found.losses.isfinite().all() and found.gradients.isfinite().all()), "losses must be finite"
    again = objective.start(store, config, CPU, classes)(clips, 1, generator(0, "draw"), whole_clips)
    assert torch.equal(again.losses, found.losses), "an iteration must not depend on those before it"
    step = 1e-3 * found.gradients / found.gradients.norm()
    ahead, behind = (compare(clips + s * step, 1, generator(0, "draw"), whole_clips) for s in (1, -1))
    slope, promised = float((ahead.losses - behind.losses).sum()), 2e-3 * float(found.gradients.norm())
    assert abs(slope - promised) <= 0.1 * promised + 1e-6, "the gradients are not those of the sum of the losses"
    _check_resumes(store, config)


@_in_a_sentence()
def check_method(method: Any, store: ClipStore) -> None:
    """A method renders clips of the store's shape, goes on from its state, and gives a set that can be saved."""
    check_name(METHODS, method)
    # What a method brings counts, where we would choose a tiny number.
    brought = {key: value for key, value in METHODS.options_of(method).items() if key in TINY}
    config = _condensing(method=method, vpc=2, **brought)
    run = Condensation(store, config, CPU)
    assert run.render().requires_grad, "rendered clips must be differentiable in what is trained"
    condensed = _check_resumes(store, config)
    assert condensed.labels.tolist() == [label for label in range(len(store.classes)) for _ in range(2)]
    if method.independent_classes:
        alone = Condensation(store, config, CPU, range(1, 2))
        _iterate(alone, 2)
        _iterate(run, 2)
        own = alone.videos.render(2)
        among_others = run.videos.render(2)[-len(own) :]
        said = "a class alone must give the videos that it gives among others, or independent_classes be False"
        assert torch.allclose(among_others, own, atol=1e-5), said


@_in_a_sentence()
def check_network(network: Any, num_frames: int = 8, size: int = 48) -> None:
    """A network embeds and classifies clips, one by one, from values that a generator draws, and learns."""
    check_name(NETWORKS, network)
    shape: dict[str, Any] = {"num_classes": 3, "num_frames": num_frames, "size": size}
    made = [_drawing_nothing_global(lambda: build(network, **shape).eval()) for _ in range(2)]
    use_generator(made[0], generator(0, "dropout"))
    clips = torch.randn((4, 3, num_frames, size, size), generator=generator(0, "clips")).requires_grad_()
    embeddings, logits = _drawing_nothing_global(lambda: (made[0].embed(clips), made[0](clips)))
    check_embeddings(made[0], embeddings, clips)
    check_logits(made[0], logits, clips)
    assert bool(embeddings.isfinite().all() and logits.isfinite().all()), "embeddings and logits must be finite"
    assert torch.equal(made[1](clips), logits), "the same generator must give the same values"
    alone = torch.cat([made[0].embed(clip[None]) for clip in clips])
    assert torch.allclose(alone, embeddings, atol=1e-4), "in eval mode no clip may depend on those beside it"
    assert embeddings.requires_grad, "embeddings must be differentiable in the clips"
    (gradient,) = torch.autograd.grad(embeddings.sum(), clips, materialize_grads=True)
    assert bool(gradient.any()), "embeddings must be differentiable in the clips"
    assert bool(gradient.isfinite().all()), "the gradient of an embedding must be finite"
    trained = _drawing_nothing_global(lambda: made[0].train()(clips.detach()))
    loss = cross_entropy(trained, torch.tensor([0, 1, 2, 0]))
    said = "a loss of the logits must have a gradient with respect to the weights"
    assert loss.requires_grad, said
    found = torch.autograd.grad(loss, list(made[0].parameters()), materialize_grads=True)
    assert any(bool(gradient.any()) for gradient in found), said


@_in_a_sentence()
def check_selection(selection: Any) -> None:
    """A selection picks as many different clips as it was asked for, and draws from its generator only."""
    check_name(SELECTIONS, selection)
    embeddings = torch.randn((7, 5), generator=generator(0, "embeddings"), dtype=torch.float64)
    for num in (1, 3, 7):

        def choose(num: int = num) -> list[int]:
            chosen = selection.choose(embeddings.clone(), num, generator(0, "draw"))
            return checked_choice(chosen, selection, num, len(embeddings))

        chosen = _drawing_nothing_global(choose)
        assert choose() == chosen, "the same draw, the same clips"


@_in_a_sentence()
def check_layout(layout: Any, source: Path) -> None:
    """A layout finds the videos of a source, each once and inside it, with a class and a known split."""
    check_name(LAYOUTS, layout)
    listing = layout.videos_of(source)
    check_listing(listing, LAYOUTS.name_of(layout))
    assert listing.videos, f"the layout finds no video in '{source}'"
    for video in listing.videos:
        assert (listing.root / video.relative).exists(), f"'{video.relative}' is not there"


@_in_a_sentence()
def check_storage(storage: Any, path: Path, encodings: tuple[type[Encoding], ...] = ()) -> None:
    """A storage keeps videos: a set is read back as it was saved, and shows the key-frames that it was given.

    Args:
        path: a file to write.
        encodings: the encodings of your own that a reader has to know.
    """
    check_name(STORAGES, storage)
    storage.check()
    frames, every = torch.rand((2, 4, 3, 16, 16), generator=generator(0, "frames")), torch.ones(2, 4).bool()
    storage.with_frames(frames, every, scale=4)
    encoding = storage.with_frames(frames, every)
    made = CondensedSet(encoding, torch.tensor([0, 1]), ("a", "b"), Normalisation((0.5,) * 3, (0.25,) * 3), True)
    made.save(path)
    loaded = CondensedSet.load(path, encodings=encodings)
    assert loaded.to_bytes() == made.to_bytes(), "a set must be read back to the same bytes"
    assert made.render().shape == frames.shape, "clips must have the shape of the frames"
    assert torch.equal(loaded.render(), made.render()), "a set must be shown as it was saved"
    assert float((made.render() - frames).abs().mean()) < 0.25, "clips must resemble the frames"


def _condensing(**options: Any) -> CondenseConfig:
    return settled(with_options(CondenseConfig(), TINY | options))


def _iterate(run: Condensation, num: int) -> None:
    for _ in range(num):
        run.step()


def _check_resumes(store: ClipStore, config: CondenseConfig) -> CondensedSet:
    """A run that goes on from a checkpoint gives the bytes of one that was never stopped."""
    whole, first, second = (Condensation(store, config, CPU) for _ in range(3))
    _iterate(whole, whole.num_iterations)
    _iterate(first, 2)
    state = {name: tensor.clone() for name, tensor in first.tensors().items()}
    second.restore(Checkpoint(first.iteration, {}, 0, 0.0, state))
    _iterate(second, whole.num_iterations - 2)
    made, resumed = (run.videos.condensed(store, config, {}) for run in (whole, second))
    assert resumed.to_bytes() == made.to_bytes(), "a resumed run must give the bytes of one that was not stopped"
    return made


def _drawing_nothing_global(work: Callable[[], Any]) -> Any:
    before = torch.get_rng_state()
    found = work()
    assert torch.equal(torch.get_rng_state(), before), "randomness must come from the generator alone"
    return found
