"""A method of one's own: what it must say, and what is done for it where it says nothing."""

from dataclasses import dataclass, replace

import pytest
import torch
from settings import PAPER

from prism.condensation.condense import condense
from prism.condensation.method import Method, Videos
from prism.condensation.options import CondenseConfig, settled
from prism.errors import ConfigError, DivergedError
from prism.testing import check_method

CPU = torch.device("cpu")
TINY = PAPER | {"iterations": 2, "batch_real": 2, "width": 2, "insertion": "never"}


@dataclass(frozen=True)
class StartingVideos(Method):
    """Starts with something else than videos."""

    given: object

    def start(self, store, config, device, classes):
        return self.given


@pytest.mark.parametrize(("given", "got"), [(None, "a NoneType"), ("videos", "a str")])
@pytest.mark.parametrize("lr", [0.0, 1.0])
def test_a_method_that_starts_no_videos_is_refused_in_one_sentence(store, given, got, lr):
    sentence = rf"method '{__name__}:StartingVideos.*' cannot be used: start must return Videos, got {got}\. docs"
    with pytest.raises(ConfigError, match=sentence):
        condense(store, method=StartingVideos(given), **(TINY | {"lr": lr}), device="cpu")


class Greys(Videos):
    """One grey value for each video."""

    def render(self, iteration):
        clips = torch.zeros(len(self.labels), self.mask.shape[1], 3, 48, 48)
        return clips + self.parts["grey"][:, None, None, None, None]


@dataclass(frozen=True)
class Grey(Method):
    """Says how its videos are rendered, and nothing else."""

    value: float = 0.5

    def start(self, store, config, device, classes):
        labels = torch.tensor(classes).repeat_interleave(config.vpc)
        return Greys({"grey": torch.full((len(labels),), self.value)}, labels, store.num_frames, config)


def test_a_method_that_says_how_it_renders_alone_keeps_the_promises(store):
    check_method(Grey(), store)


def test_what_a_method_says_nothing_of_moves_at_the_rate_of_the_key_frames(store):
    config = settled(CondenseConfig(**(TINY | {"lr": 0.0, "relative_lr": 0.7}), method=Grey()))
    started = store, config, CPU, range(2)
    (relative,) = Grey().start(*started).trainable
    assert (relative.option, relative.lr, relative.is_relative) == ("relative_lr", 0.7, True)
    (absolute,) = Grey().start(store, replace(config, lr=3.0), *started[2:]).trainable
    assert (absolute.option, absolute.lr, absolute.is_relative) == ("lr", 3.0, False)


def test_the_set_of_such_a_method_holds_every_frame_as_it_is_rendered(store):
    made = condense(store, method=Grey(), **(TINY | {"iterations": 0, "lr": 1.0}), device="cpu")
    expected = store.normalisation.invert(torch.full((2, 8, 3, 48, 48), 0.5))
    assert torch.allclose(made.render(), expected)


def test_a_frame_that_its_storage_cannot_hold_is_refused_there_too(store):
    with pytest.raises(DivergedError, match=r"a key-frame has reached .*, which float16 cannot hold"):
        condense(
            store, method=Grey(1e6), **(TINY | {"iterations": 0, "lr": 1.0, "storage": "float16"}), device="cpu"
        )
