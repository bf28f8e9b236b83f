"""Static images, dynamic memories and a hallucinator (Wang et al.): how they start, move and are stored."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from settings import CPU

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import DTYPES
from prism.artifacts.encodings.static_dynamic import KERNEL, StaticDynamicEncoding, hallucinate
from prism.condensation.condense import condense, finished_set
from prism.condensation.options import CondenseConfig
from prism.condensation.prepare import Setup, scored
from prism.condensation.static_dynamic import StaticDynamic
from prism.errors import DivergedError
from prism.evaluation.evaluate import evaluate
from prism.machine.run import Run
from tests.artifacts.test_condensed import GOLDEN, forge_of, golden_set, refusal

TINY = {"width": 4, "batch_real": 2, "iterations": 6, "static_iterations": 4}


def config(**options: object) -> CondenseConfig:
    return CondenseConfig(**(TINY | StaticDynamic.fixed | options), method="static-dynamic")  # type: ignore[arg-type]


def test_the_score_of_a_set_is_of_all_images_and_memories_that_it_stores(store):
    options = config(lr=0.0, static_lr=1.0, dynamic_lr=1.0)
    setup, made = Setup(store, options), condense(store, options, device="cpu")
    for name in ("static", "dynamic"):
        tensors = {key: value.clone() for key, value in made.encoding.tensors.items()}
        tensors[name][1::2] += 1
        other = replace(made, encoding=made.encoding.holding(tensors, made.num_frames, made.size))
        assert scored(other, setup.held_out(Run(device="cpu"))).source["unseen"] != made.source["unseen"]


def test_static_images_start_as_frames_of_real_clips_of_the_videos_class(make_store):
    store = make_store(train=[2, 3])
    videos = StaticDynamic().start(store, config(vpc=2), CPU, range(2))
    real = store.clips("train")
    pixels = (store.normalisation.invert(videos.static.detach()) * 255).round().to(torch.uint8)
    found = [(real.frames == image).flatten(2).all(dim=2).nonzero().tolist() for image in pixels]
    assert all(len(where) == 1 for where in found)
    clips = [where[0][0] for where in found]
    assert [int(real.labels[clip]) for clip in clips] == [0] * 4 + [1] * 4
    # Four images of a class with two clips: each serves twice; of three: each at least once.
    assert [len(set(clips[:4])), len(set(clips[4:]))] == [2, 3]


@pytest.mark.parametrize(("train", "vpc"), [(1, 1), (1, 4), (3, 2), (2, 5)])
def test_images_of_a_class_with_too_few_clips_start_as_different_frames_of_them(make_store, train, vpc):
    store = make_store(train=train)
    for seed in range(20):
        images = StaticDynamic().start(store, config(vpc=vpc, seed=seed), CPU, range(2)).static.detach()
        assert len(images.unique(dim=0)) == len(images) == 4 * vpc


def test_memories_start_as_noise_and_the_hallucinator_as_pytorch_would(store):
    videos = StaticDynamic().start(store, config(vpc=2), CPU, range(2))
    assert videos.dynamic.shape == (8, 8, 48, 48)
    # 147,456 values: the mean errs by 0.0026 and the deviation by 0.0018.
    assert videos.dynamic.mean().abs() < 0.02
    assert abs(videos.dynamic.std() - 1) < 0.02
    bound = 1 / np.sqrt(4 * 27)
    assert 0.9 * bound < videos.weight.abs().max() <= bound
    assert videos.bias.abs().max() <= bound
    others = StaticDynamic().start(store, config(vpc=2, seed=1), CPU, range(2)).state()
    assert not any(torch.equal(part, others[name]) for name, part in videos.state().items())


def test_images_move_first_and_alone_then_rest_while_the_others_move(store):
    run = Setup(store, config(dynamic_lr=1.0, hallucinator_lr=0.1)).start(CPU)
    for iteration in range(run.num_iterations):
        before = {name: part.clone() for name, part in run.videos.state().items()}
        run.step()
        moved = {name for name, part in run.videos.state().items() if not torch.equal(part, before[name])}
        assert moved == ({"static"} if iteration < 4 else {"dynamic", "weight", "bias"})


def test_in_the_first_steps_images_are_matched_with_frames_held_still(store):
    run = Setup(store, config()).start(CPU)
    network, real = run.networks.draw(0), run.networks.class_means(0)
    stills = run.videos.static.detach()[:, None].expand(-1, 8, -1, -1, -1)
    embeddings = network.embed(stills.transpose(1, 2))
    expected = sum(float((real[c] - embeddings[2 * c : 2 * c + 2].mean(dim=0)).square().sum()) for c in range(2))
    assert run.step().loss == pytest.approx(expected, rel=1e-4)


def test_a_later_step_is_sgd_on_one_drawn_combination(store):
    run = Setup(store, config(static_iterations=0, vpc=2, dynamic_lr=50.0, hallucinator_lr=1e-3)).start(CPU)
    parts = [part.detach().clone().requires_grad_() for part in run.videos.state().values()]
    clips = run.videos.render(0)
    # Which images and memories were drawn: exactly those through which a gradient flows.
    (through,) = torch.autograd.grad(clips.sum(), run.videos.dynamic)
    memories = through.flatten(1).any(dim=1).nonzero().flatten()
    assert (memories // 2).tolist() == [0, 1, 2, 3]
    assert not torch.equal(clips, run.videos.render(1))
    both = torch.arange(8).view(4, 2)
    shown = hallucinate(parts[0], parts[1][memories].repeat_interleave(2, dim=0), *parts[2:]).unflatten(0, (4, 2))
    is_drawn = torch.isclose(shown, clips[:, None], atol=1e-5).flatten(2).all(dim=2)
    assert (is_drawn.sum(dim=1) == 1).all()
    images = both[is_drawn]
    network, real = run.networks.draw(0), run.networks.class_means(0)
    rendered = hallucinate(parts[0][images], parts[1][memories], *parts[2:])
    embeddings = network.embed(rendered.transpose(1, 2)).view(2, 2, -1).mean(dim=1)
    gradients = torch.autograd.grad((real - embeddings).square().sum(), parts[1:])
    run.step()
    _, *moved = run.videos.state().values()
    for part, rate, gradient, now in zip(parts[1:], (50.0, 1e-3, 1e-3), gradients, moved, strict=True):
        torch.testing.assert_close(now, part.detach() - rate * gradient, rtol=1e-4, atol=1e-6)


def test_the_set_is_the_last_iterations_parts_in_units_of_pixels(store):
    condensed, run = condense(store, config(vpc=2), device="cpu"), Setup(store, config(vpc=2)).start(CPU)
    for _ in range(run.num_iterations):
        run.step()
    videos, tensors = run.videos, condensed.encoding.tensors
    torch.testing.assert_close(store.normalisation.apply(tensors["static"]), videos.static.detach())
    assert torch.equal(tensors["dynamic"], videos.dynamic.detach())
    expected = hallucinate(videos.static[::2], videos.dynamic[::2], videos.weight, videos.bias).detach()
    torch.testing.assert_close(store.normalisation.apply(condensed.render()), expected, rtol=1e-4, atol=1e-5)


def test_a_memory_that_float16_cannot_hold_is_not_stored(store, tmp_path):
    sentence = r"a dynamic memory has reached .*, which float16 cannot hold.*--dynamic-lr 1e\+29 or"
    options = config(static_iterations=0, iterations=1, dynamic_lr=1e30, storage="float16")
    with pytest.raises(DivergedError, match=sentence):
        condense(store, options, output=tmp_path / "set", device="cpu")
    assert not (tmp_path / "set").exists()


def test_a_hallucinator_that_the_last_iteration_made_infinite_or_no_number_is_not_stored(store):
    setup = Setup(store, config(storage="uint8"))
    run = setup.start(CPU)
    said = r"which float32 cannot hold.*--hallucinator-lr 1e-06 --overwrite"
    for value in (-torch.inf, torch.nan):
        run.videos.bias.data[1] = value
        with pytest.raises(DivergedError, match=f"the hallucinator has reached {abs(value)}, {said}"):
            finished_set(setup, run, {})


def test_evaluation_renders_other_combinations_in_every_epoch(store, monkeypatch):
    condensed, seen = condense(store, config(), device="cpu"), []
    original = StaticDynamicEncoding.render

    def render(self: StaticDynamicEncoding, *args: object) -> torch.Tensor:
        seen.append(original(self, *args))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(StaticDynamicEncoding, "render", render)
    evaluate(condensed, store, width=2, epochs=6, seeds=2, device="cpu")
    assert len(seen) == 12
    assert len({clips.numpy().tobytes() for clips in seen}) > 3


def arithmetic_parts() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Parts for three videos of 4 frames, 2×3 pixels, exact in every number format up to uint8's rounding."""

    def values(*shape: int) -> torch.Tensor:
        return ((torch.arange(int(np.prod(shape))) * 37 % 256).float() / 256).view(shape)

    return values(6, 3, 2, 3), values(6, 4, 2, 3) * 4 - 2, values(*KERNEL) - 0.5, torch.tensor([0.0, 0.25, -0.5])


def arithmetic_set(storage: str) -> CondensedSet:
    """The set of the golden files."""
    return golden_set(StaticDynamicEncoding.of_parts(*arithmetic_parts(), storage))


@pytest.mark.parametrize("storage", DTYPES)
def test_the_golden_file_is_read_and_rendered_as_the_set_that_made_it(storage, tmp_path):
    golden = GOLDEN / f"static-dynamic-{storage}.safetensors"
    condensed, made = CondensedSet.load(golden), arithmetic_set(storage)
    assert forge(tmp_path / "set", storage).read_bytes() == made.to_bytes() == golden.read_bytes()
    assert torch.equal(condensed.render(), made.render())
    assert condensed.metadata == made.metadata


STATIC, DYNAMIC, WEIGHT, _ = arithmetic_parts()
WITH_NAN = DYNAMIC.flatten().index_fill(0, torch.tensor([1]), float("nan")).view_as(DYNAMIC)
INCONSISTENT: dict[str, tuple[dict[str, Any], str]] = {
    "too few static images": ({"tensors": {"static": STATIC[:5]}}, ""),
    "too few memories": ({"tensors": {"dynamic": DYNAMIC[:4]}}, "dynamic must be (6, 4, 2, 3)"),
    "static images have one channel": ({"tensors": {"static": STATIC[:, :1]}}, ""),
    "images and memories differ in size": ({"tensors": {"dynamic": DYNAMIC[..., :2]}}, ""),
    "two number formats": ({"tensors": {"dynamic": DYNAMIC.half()}}, "number format"),
    "a memory holds NaN": ({"tensors": {"dynamic": WITH_NAN}}, "not finite"),
    "the weight has another shape": ({"tensors": {"weight": WEIGHT[:, :3]}}, "weight must be (3, 4, 3, 3, 3)"),
    "the static images are missing": ({"tensors": {"static": None}}, ""),
    "uint8 with too few scales": ({"storage": "uint8", "tensors": {"static_scale": torch.ones(5)}}, ""),
    "T is another": ({"metadata": {"num_frames": 5}}, "another size or length"),
    "an unknown encoding": ({"metadata": {"encoding": "wavelets"}}, "'wavelets', but this PRISM reads keyframes,"),
    "the encoding is a list": ({"metadata": {"encoding": ["static-dynamic"]}}, ""),
}


def forge(path: Path, storage: str = "float32", **changes: Any) -> Path:
    return forge_of(arithmetic_set(storage), path, **changes)


@pytest.mark.parametrize(("changes", "says"), INCONSISTENT.values(), ids=INCONSISTENT)
def test_a_signed_but_inconsistent_file_is_refused_in_one_sentence(tmp_path, changes, says):
    said = refusal(forge(tmp_path / "set", **changes))
    assert says in said
    assert "checksum" not in said
