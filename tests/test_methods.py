"""What every condensation method promises: a new one is tested here by being in the dictionary."""

import os
from pathlib import Path

import pytest
import torch

from prism.condense.journal import Journal
from prism.condense.loop import Condensation, condense
from prism.condense.parametrisations import PARAMETRISATIONS
from prism.condensed import CondensedSet
from prism.config import FIXED_BY_METHOD, CondenseConfig
from prism.encodings import DTYPES
from prism.errors import ConfigError, DivergedError
from prism.evaluate import evaluate
from prism.runtime import generator

TINY = {"width": 4, "batch_real": 2, "iterations": 3, "static_iterations": 2}

pytestmark = pytest.mark.parametrize("method", PARAMETRISATIONS)


def run_tiny(store, method: str, output: Path | None = None, **options) -> CondensedSet:
    return condense(store, method=method, output=output, device="cpu", **(TINY | options))


def test_every_class_has_vpc_videos_in_order(make_store, method):
    store = make_store(classes=3, train=[2, 3, 4])
    condensed = run_tiny(store, method, vpc=2)
    assert condensed.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert condensed.clips().labels.tolist() == condensed.labels.tolist()
    assert (condensed.classes, condensed.flip) == (store.classes, store.flip)
    assert condensed.normalisation == store.normalisation


def test_a_rendered_set_has_the_shape_of_the_stores_clips_and_is_finite(store, method):
    condensed = run_tiny(store, method, vpc=2)
    for clips in (condensed.render(), condensed.render(generator=generator(0, "draw"))):
        assert clips.shape == (4, 8, 3, 48, 48)
        assert clips.dtype == torch.float32
        assert clips.isfinite().all()


def test_rendering_some_videos_is_rendering_all_and_picking_them(store, method):
    condensed, some = run_tiny(store, method, vpc=2), torch.tensor([3, 0])
    torch.testing.assert_close(condensed.render(some), condensed.render()[some])
    drawn = [condensed.render(videos, generator(5, "draw")) for videos in (some, None)]
    torch.testing.assert_close(drawn[0], drawn[1][some])


def test_only_a_set_that_says_so_renders_at_random(store, method):
    condensed = run_tiny(store, method, vpc=2)
    draws = [condensed.render(generator=generator(seed, "draw")) for seed in range(5)]
    assert any(not torch.equal(draws[0], draw) for draw in draws) == condensed.is_random
    assert torch.equal(condensed.render(), condensed.render())


def test_one_seed_gives_one_file_and_another_seed_another(store, method):
    first, again, other = (run_tiny(store, method, seed=seed).to_bytes() for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("storage", DTYPES)
def test_a_saved_set_is_read_back_and_saved_again_to_the_same_bytes(store, tmp_path, method, storage):
    made = run_tiny(store, method, tmp_path / "set", storage=storage)
    loaded = CondensedSet.load(tmp_path / "set")
    assert loaded.to_bytes() == made.to_bytes() == (tmp_path / "set").read_bytes()
    assert torch.equal(loaded.render(), made.render())
    assert loaded.storage == storage


def test_bytes_are_those_of_the_file_and_four_for_each_stored_value(store, tmp_path, method):
    condensed = run_tiny(store, method, tmp_path / "set")
    assert condensed.num_bytes == (tmp_path / "set").stat().st_size
    tensors = condensed.encoding.tensors()
    indices = {"times", "offsets"}
    assert condensed.float32_bytes == sum(
        4 * part.numel() for name, part in tensors.items() if name not in indices
    )
    assert condensed.float32_bytes < condensed.num_bytes < condensed.float32_bytes + 10_000
    assert condensed.num_keyframes == sum(condensed.keyframe_counts.tolist()) > 0
    assert len(condensed.keyframe_counts) == len(condensed.mask) == len(condensed)


class Crash(BaseException):
    """What a test stops a run with."""


@pytest.mark.parametrize("iteration", [1, 2, 3])
def test_a_run_that_died_resumes_to_the_same_bytes(store, tmp_path, monkeypatch, method, iteration):
    original = Journal.record

    def record(journal: Journal, step: dict) -> dict:
        if journal.run.iteration == iteration:
            raise Crash
        return original(journal, step)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "record", record)
        with pytest.raises(Crash):
            run_tiny(store, method, tmp_path / "set", checkpoint_seconds=0)
    run_tiny(store, method, tmp_path / "set", resume=True)
    assert (tmp_path / "set").read_bytes() == run_tiny(store, method).to_bytes()
    assert len(os.listdir(tmp_path)) == 2


def test_a_class_with_too_few_clips_is_refused_by_name(make_store, method):
    with pytest.raises(ConfigError, match=r"condense\.vpc = 3, but class 'class1' has 2 training clips"):
        run_tiny(make_store(train=[4, 2]), method, vpc=3)


def test_a_divergence_names_the_options_to_lower(store, method):
    config = CondenseConfig(**(TINY | FIXED_BY_METHOD[method]), method=method)
    run = Condensation(store, config, torch.device("cpu"))
    with pytest.raises(DivergedError) as caught:
        run.check_finite(torch.tensor([1.0, float("nan")]))
    for part in run.videos.trainable:
        assert f"--{part.option.replace('_', '-')} {getattr(config, part.option) / 10:g}" in str(caught.value)


def test_condensing_lowers_the_loss(store, method):
    options = {"iterations": 30, "lr": 30.0, "dynamic_lr": 100.0, "hallucinator_lr": 1e-2}
    # One network, so that losses can be compared.
    config = CondenseConfig(
        **(TINY | options | FIXED_BY_METHOD[method]), method=method, real_moments="bank", bank_size=1
    )
    run = Condensation(store, config, torch.device("cpu"))
    losses = [run.step()["loss"] for _ in range(run.num_iterations)][run.videos.preparation :]
    assert max(losses[-5:]) < 0.5 * losses[0]


def test_a_network_trains_on_it(store, method):
    condensed = run_tiny(store, method)
    runs = [evaluate(condensed, store, width=2, epochs=3, seeds=1, device="cpu").runs[0] for _ in range(2)]
    assert (runs[0].train_loss, runs[0].top1) == (runs[1].train_loss, runs[1].top1)
