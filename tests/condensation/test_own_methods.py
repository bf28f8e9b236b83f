"""A method of one's own: what it must say, and what is done for it where it says nothing."""

from dataclasses import dataclass, replace

import pytest
import torch
from settings import PAPER

from prism.artifacts.encodings.sparse import Float32
from prism.artifacts.keyframes import enlarge
from prism.condensation.condense import condense
from prism.condensation.method import Method, Videos
from prism.condensation.options import CondenseConfig, settled
from prism.errors import ConfigError, DivergedError
from prism.machine.randomness import generator
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


def grey(labels, num_frames=8):
    """A method that starts with grey videos of these labels, whatever it is asked for."""

    def start(self, store, config, device, classes):
        return Greys({"grey": torch.full((len(labels),), 0.5)}, torch.tensor(labels), num_frames, config)

    return type("Heedless", (Method,), {"start": start})


@pytest.mark.parametrize(
    ("started", "sentence"),
    [
        (grey([0, 1]), r"the labels must be 2 for each class in 0\.\.1, one class after the other, got \[0, 1\]"),
        (grey([0, 1, 0, 1]), r"the labels must be 2 for each class in 0\.\.1, .* got \[0, 1, 0, 1\]"),
        (grey([0, 0, 1, 1, 2, 2]), r"the labels must be .* got \[0, 0, 1, 1, 2, 2\]"),
        (grey([0, 0, 1, 1], 9), r"the mask must be \(V, T\) = \(4, 8\), got \(4, 9\)"),
    ],
)
def test_a_method_that_starts_other_videos_than_it_was_asked_for_is_refused(store, started, sentence):
    with pytest.raises(ConfigError, match=f"Heedless' cannot be used: {sentence}"):
        condense(store, method=started(), **(TINY | {"vpc": 2}), device="cpu")


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


class Odd(Greys):
    """One clip more than videos."""

    def render(self, iteration):
        return super().render(iteration)[[0, *range(len(self.labels))]]


class Sideways(Greys):
    """Colours before frames, as networks have them."""

    def render(self, iteration):
        return super().render(iteration).transpose(1, 2)


@pytest.mark.parametrize("videos", [Odd, Sideways])
@pytest.mark.parametrize("lr", [0.0, 1.0])
def test_clips_of_another_shape_are_refused_before_a_network_sees_them(store, monkeypatch, videos, lr):
    monkeypatch.setattr(f"{__name__}.Greys", videos)
    said = r"it must render clips \(n, 8, 3, 48, 48\), as many of each of 2 classes, got \("
    with pytest.raises(ConfigError, match=f"Grey' cannot be used: {said}"):
        condense(store, method=Grey(), **(TINY | {"lr": lr}), device="cpu")


class Brightening(Videos):
    """Still videos, which grow brighter from the fourth iteration on."""

    def render(self, iteration):
        light = torch.linspace(0, 1, 8).square() * (iteration >= 4)
        return self.parts["grey"].view(-1, 1, 1, 1, 1) + light.view(-1, 1, 1, 1).expand(8, 3, 48, 48)


class Staged(Method):
    """Brightening videos, of whose frames an insertion rule may propose all but the first."""

    def preparation(self, config):
        return 4

    def start(self, store, config, device, classes):
        labels = torch.tensor(classes).repeat_interleave(config.vpc)
        videos = Brightening({"grey": torch.full((len(labels),), 0.5)}, labels, store.num_frames, config)
        videos.mask[:, 1:] = False
        return videos


def test_a_set_holds_every_frame_as_it_is_rendered_last_whatever_the_mask_and_the_stages(store):
    made = condense(store, method=Staged(), **(TINY | {"iterations": 1, "lr": 1e-30}), device="cpu")
    last = (0.5 + torch.linspace(0, 1, 8).square()).view(1, 8, 1, 1, 1).expand(2, 8, 3, 48, 48)
    assert torch.allclose(made.render(), store.normalisation.invert(last), atol=1e-6)


def test_a_method_with_stages_has_a_rate_where_there_are_no_iterations_after_them(store):
    made = condense(store, method=Staged(), **(TINY | {"iterations": 0, "lr": 0.0}), device="cpu")
    assert len(made) == 2


class Halved(Videos):
    """Frames of half the height and width."""

    def render(self, iteration):
        return enlarge(self.parts["frames"], 2)


class Half(Method):
    """Halved noise."""

    def start(self, store, config, device, classes):
        labels = torch.tensor(classes).repeat_interleave(config.vpc)
        shape = len(labels), store.num_frames, 3, *(side // 2 for side in store.size)
        noise = torch.randn(shape, generator=generator(config.seed, "noise"))
        return Halved({"frames": noise}, labels, store.num_frames, config)


def test_the_frames_of_a_finished_set_have_the_same_bytes_with_any_number_of_threads(make_store):
    # Of this size eight threads round otherwise than one.
    store, before, files = make_store(size=52), torch.get_num_threads(), []
    try:
        for threads in (1, 3, 8):
            torch.set_num_threads(threads)
            files.append(condense(store, method=Half(), **TINY, device="cpu").to_bytes())
    finally:
        torch.set_num_threads(before)
    assert files[0] == files[1] == files[2]


class WithoutEncoder(Float32):
    def check(self):
        raise ConfigError("there is no encoder")


def test_a_storage_that_fails_is_refused_before_the_first_iteration_of_a_method_of_ones_own(store, monkeypatch):
    monkeypatch.setattr(Greys, "render", None)
    with pytest.raises(ConfigError, match="there is no encoder"):
        condense(store, method=Grey(), storage=WithoutEncoder(), **(TINY | {"lr": 1.0}), device="cpu")
