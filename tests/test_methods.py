"""What every method promises, condensation or selection: a new one is tested here by being in its dictionary.

No other module repeats these tests for one method; there stands what is special about it.
"""

import os
import platform
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import MakeStore
from settings import PAPER, refusal_of, started

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings import DTYPES
from prism.artifacts.store import ClipStore
from prism.condensation.condense import condense
from prism.condensation.options import METHODS as CONDENSATIONS
from prism.condensation.videos import suggest_lower_lr
from prism.errors import ConfigError, OutputError
from prism.evaluation.evaluate import evaluate
from prism.machine.randomness import generator
from prism.selection.options import SELECTIONS
from prism.selection.select import select

METHODS = [*CONDENSATIONS.registry, *SELECTIONS.registry]
CONDENSES = PAPER | {"width": 4, "batch_real": 2, "iterations": 3, "static_iterations": 2, "epsilon": 0.03}
SELECTS = {"width": 2, "epochs": 1}
FOREVER = {"iterations": 10**6, "epochs": 10**9}
"""What nobody would wait for: a refusal must come before the first step."""
DETERMINED_BY = {"herding": "embedder_seed", "k-center": "embedder_seed"}
"""The seed that a method depends on, where that is not `seed`: the network that embeds decides alone."""
STORED = [(method, storage) for method in METHODS for storage in DTYPES]
STORED += [(method, "h264") for method in METHODS if method != "static-dynamic"]

every_method = pytest.mark.parametrize("method", METHODS)
every_condensation = pytest.mark.parametrize("method", CONDENSATIONS.registry)


def make(
    store: ClipStore | Path, method: str, output: Path | None = None, *, forever: bool = False, **options: object
) -> CondensedSet:
    """Condense or select as fast as it goes."""
    verb, tiny = (condense, CONDENSES) if method in CONDENSATIONS.registry else (select, SELECTS)
    endless = {key: value for key, value in FOREVER.items() if forever and key in tiny}
    return verb(store, method=method, output=output, device="cpu", **(tiny | endless | options))  # type: ignore[operator]


@every_method
def test_every_class_has_vpc_videos_in_order_up_to_all_its_clips(make_store: MakeStore, method):
    store = make_store(classes=3, train=[3, 4, 3], flip=False)
    condensed = make(store, method, vpc=3)
    assert condensed.labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert condensed.clips().labels.tolist() == condensed.labels.tolist()
    assert (condensed.classes, condensed.flip) == (store.classes, store.flip)
    assert condensed.normalisation == store.normalisation


@every_method
def test_a_class_with_too_few_clips_is_refused_by_name_before_the_first_step(make_store, method):
    verb = "condense" if method in CONDENSATIONS.registry else "select"
    with pytest.raises(ConfigError, match=rf"{verb}\.vpc = 3, but class 'class1' has only 2 for training"):
        make(make_store(train=[4, 2]), method, vpc=3, forever=True)


@every_method
def test_no_validation_or_test_clip_has_any_influence(make_store, method):
    frames = np.random.default_rng(0).integers(0, 256, (2 * (3 + 1 + 2), 8, 3, 48, 48), dtype=np.uint8)
    others = frames.copy()
    others[6:] = 255 - others[6:]
    first, second = (make(make_store(train=3, frames=part), method, vpc=2) for part in (frames, others))
    assert first.source["store"] != second.source["store"]
    assert torch.equal(first.render(), second.render())


@every_method
def test_a_set_says_how_it_was_made_and_names_neither_clock_nor_host(store, tmp_path, monkeypatch, method):
    monkeypatch.setattr(platform, "node", lambda: "name-of-the-host")
    monkeypatch.setattr(time, "strftime", lambda *given: "time-of-the-clock")
    condensed = make(store.path, method, tmp_path / "set")
    assert condensed.source["method"] == condensed.source["config"]["method"] == method
    assert condensed.source["store"] == store.fingerprint
    assert condensed.source.keys() - {"device", "clips", "unseen"} == {"method", "config", "versions", "store"}
    assert not {word for word in (b"name-of-the-host", b"time-of-the-clock") if word in condensed.to_bytes()}


@every_method
def test_a_rendered_set_has_the_shape_of_the_stores_clips_and_values_in_units_of_pixels(store, method):
    condensed = make(store, method, vpc=2)
    for clips in (condensed.render(), condensed.render(generator=generator(0, "draw"))):
        assert clips.shape == (4, 8, 3, 48, 48)
        assert clips.dtype == torch.float32
        assert clips.isfinite().all()
        # Real pixels lie in 0..1. Synthetic ones may exceed that, but not by as much as 0..255 would.
        low, high = (0, 1) if method in SELECTIONS.registry else (-8, 9)
        assert low <= clips.min() < clips.max() <= high


@every_method
def test_clips_need_not_be_square_nor_of_an_even_size(make_store, tmp_path, method):
    store = make_store(train=2, num_frames=5, size=(43, 58))
    made = make(store, method, tmp_path / "set", vpc=2)
    assert made.render().shape == (4, 5, 3, 43, 58)
    assert torch.equal(CondensedSet.load(tmp_path / "set").render(), made.render())
    assert len(evaluate(made, store, width=2, epochs=1, seeds=1, device="cpu").runs) == 1


@every_method
def test_only_a_set_that_says_so_renders_at_random(store, method):
    condensed = make(store, method, vpc=2)
    draws = [condensed.render(generator=generator(seed, "draw")) for seed in range(5)]
    assert any(not torch.equal(draws[0], draw) for draw in draws) == condensed.is_random
    assert torch.equal(condensed.render(), condensed.render())


@every_method
def test_one_seed_gives_one_file_and_other_seeds_other_videos(store, method):
    seed = DETERMINED_BY.get(method, "seed")
    first, again = (make(store, method, **{seed: 0}) for _ in range(2))
    assert first.to_bytes() == again.to_bytes()
    others = (make(store, method, **{seed: other}) for other in range(1, 9))
    assert any(not torch.equal(first.render(), other.render()) for other in others)


@pytest.mark.parametrize("method", DETERMINED_BY)
def test_what_its_embeddings_determine_does_not_depend_on_the_seed(store, method):
    clips = [make(store, method, vpc=2, seed=seed).source["clips"] for seed in range(5)]
    assert clips == [clips[0]] * 5


@every_method
def test_the_global_random_state_neither_matters_nor_changes(make_store, method):
    # A store for each, so that no cache of embeddings stands between the two.
    torch.manual_seed(1)
    first = make(make_store(), method).to_bytes()
    state = torch.get_rng_state()
    torch.rand(100)
    assert make(make_store(), method).to_bytes() == first
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("method", "storage"), STORED)
def test_a_saved_set_is_read_back_and_saved_again_to_the_same_bytes(store, tmp_path, method, storage):
    made = make(store, method, tmp_path / "set", storage=storage)
    loaded = CondensedSet.load(tmp_path / "set")
    assert loaded.to_bytes() == made.to_bytes() == (tmp_path / "set").read_bytes()
    assert torch.equal(loaded.render(), made.render())
    assert loaded.encoding.storage == storage


@every_method
def test_bytes_are_those_of_the_file_and_four_for_each_stored_value(store, tmp_path, method):
    condensed = make(store, method, tmp_path / "set", storage="uint8")
    tensors = condensed.encoding.tensors
    values = {name: part for name, part in tensors.items() if not name.endswith(("scale", "minimum"))}
    indices = {"times", "offsets"}
    assert condensed.float32_bytes == sum(4 * part.numel() for name, part in values.items() if name not in indices)
    assert condensed.num_bytes == (tmp_path / "set").stat().st_size
    assert 0 < condensed.num_bytes - sum(part.nbytes for part in tensors.values()) < 10_000
    assert condensed.num_keyframes == sum(condensed.keyframe_counts.tolist()) > 0
    assert len(condensed.keyframe_counts) == len(condensed.mask) == len(condensed)


@every_method
def test_an_output_that_exists_is_refused_before_the_first_step_unless_overwriting(store, tmp_path, method):
    (tmp_path / "set").write_text("precious")
    assert "exists already" in refusal_of(OutputError, make, store, method, tmp_path / "set", forever=True)
    assert (tmp_path / "set").read_text() == "precious"
    assert os.listdir(tmp_path) == ["set"]
    made = make(store, method, tmp_path / "set", overwrite=True)
    assert (tmp_path / "set").read_bytes() == made.to_bytes()


@every_method
def test_networks_train_on_it_and_on_its_file_alike(make_store, tmp_path, method):
    store = make_store(train=10, val=0)
    made = make(store, method, tmp_path / "set")
    given = {"width": 2, "epochs": 3, "seeds": 1, "device": "cpu"}
    results = [evaluate(found, store, **given) for found in (made, tmp_path / "set")]
    (first,), (second,) = (result.runs for result in results)
    assert (first.scores, first.train_loss) == (second.scores, second.train_loss)
    assert np.isfinite(first.train_loss)
    subject = results[1].subject
    assert (subject.method, subject.num_videos, subject.num_keyframes) == (method, 2, made.num_keyframes)
    assert (subject.num_bytes, subject.float32_bytes) == (made.num_bytes, made.float32_bytes)
    assert subject.config == made.source["config"]


@every_condensation
def test_a_divergence_names_the_options_to_lower(store, method):
    run = started(store, **CONDENSES, method=method)
    said = suggest_lower_lr(run.videos.trainable)
    for part in run.videos.trainable:
        assert f"--{part.option.replace('_', '-')} {getattr(run.config, part.option) / 10:g}" in said


@every_condensation
def test_condensing_lowers_the_loss(store, method):
    options = {"iterations": 30, "lr": 30.0, "dynamic_lr": 100.0, "hallucinator_lr": 1e-2}
    run = started(store, **(CONDENSES | options), method=method)
    # One network, so that losses can be compared.
    run.networks.number_of = lambda iteration: 0
    losses = [run.step().loss for _ in range(run.num_iterations)][run.preparation :]
    assert max(losses[-5:]) < 0.5 * losses[0]
