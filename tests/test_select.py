"""Coreset selection: real clips, in the same form as condensed ones."""

import pytest
import torch

from prism.condensed import CondensedSet
from prism.errors import ConfigError, OutputError
from prism.select import METHODS, select


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("vpc", [1, 3])
def test_every_method_picks_vpc_different_real_clips_of_each_class(store, method, vpc):
    chosen = select(store, method=method, vpc=vpc)
    real = store.clips("train")
    pixels = (chosen.render() * 255).round().to(torch.uint8)
    found = [next(i for i in range(len(real)) if torch.equal(real.frames[i], clip)) for clip in pixels]
    assert len(set(found)) == 2 * vpc
    assert real.labels[found].tolist() == chosen.labels.tolist() == [0] * vpc + [1] * vpc
    assert chosen.source["clips"] == [store.sources[i].path for i in found]


@pytest.mark.parametrize("method", METHODS)
def test_every_frame_of_a_selected_clip_is_a_keyframe(store, method):
    chosen = select(store, method=method)
    assert chosen.mask.all()
    assert (chosen.classes, chosen.normalisation, chosen.flip) == (store.classes, store.normalisation, store.flip)


def test_one_seed_gives_the_same_file_and_others_give_others(store, tmp_path):
    for name in ("a", "b"):
        select(store, seed=0, output=tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == select(store, seed=0).to_bytes()
    assert len({tuple(select(store, seed=seed).source["clips"]) for seed in range(8)}) > 3


def test_a_saved_selection_is_a_condensed_set_like_any_other(store, tmp_path):
    select(store.path, output=tmp_path / "set")
    assert CondensedSet.load(tmp_path / "set").source["method"] == "random"


def test_no_test_clip_is_ever_picked(store):
    chosen = select(store, vpc=4)
    assert all("train" in path for path in chosen.source["clips"])


def test_more_clips_than_a_class_has_are_refused_by_name(make_store):
    with pytest.raises(ConfigError, match=r"select\.vpc = 3, but class 'class1' has 2 training clips"):
        select(make_store(train=[4, 2]), vpc=3)


def test_an_output_that_exists_is_refused_unless_overwriting(store, tmp_path):
    (tmp_path / "set").write_text("precious")
    with pytest.raises(OutputError, match="exists already"):
        select(store, output=tmp_path / "set")
    select(store, output=tmp_path / "set", overwrite=True)
    assert len(CondensedSet.load(tmp_path / "set")) == 2
