"""A rule, objective or storage of one's own: an object or a name, recorded, resumed, and spread over classes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from conftest import CrashingAt
from settings import PAPER
from torch import nn
from torch.nn.functional import cross_entropy

from prism.artifacts.encodings import Encoding
from prism.artifacts.encodings.sparse import Float32
from prism.artifacts.keyframes import enlarge, render
from prism.artifacts.telemetry import Telemetry, telemetry_path
from prism.condensation.condense import condense
from prism.condensation.loop import Condensation
from prism.condensation.objectives import Compared, Objective
from prism.condensation.rules import InsertionRule
from prism.errors import ArtifactError, ConfigError, DivergedError
from prism.networks.build import build_for
from prism.networks.network import Network
from prism.networks.options import Schedule
from prism.networks.training import train
from prism.testing import check_objective

TINY = {key: value for key, value in PAPER.items() if key != "insertion"} | {
    "iterations": 6,
    "batch_real": 2,
    "width": 2,
    "warmup": 0.0,
    "cooldown": 0.0,
    "device": "cpu",
}


@dataclass(frozen=True)
class Loud(InsertionRule):
    """Frames whose gradient has more than `times` the mean energy."""

    times: float = 1.5
    independent_classes = True

    def propose(self, occasion):
        energy = occasion.gradients.flatten(2).square().sum(dim=2)
        return energy > self.times * energy.mean(dim=1, keepdim=True)


class Loudest(InsertionRule):
    """The frame whose gradient has the largest energy of all videos."""

    def propose(self, occasion):
        return occasion.conflict.energy == occasion.conflict.energy.max()


class Silent(Loudest):
    """No frame."""

    inserts = False


@dataclass(frozen=True)
class Recognised(Objective):
    """The cross-entropy of a network that was trained on the real clips of all classes."""

    epochs: int = 1
    independent_classes = False

    def start(self, store, config, device, classes):
        network, clips = build_for(store, config.model, device, width=config.width), store.clips("train")
        train(network, clips, store.normalisation, Schedule(self.epochs, 8), seed=config.seed, flip=store.flip)
        network.eval().requires_grad_(False)

        def compare(clips, iteration, generator, view):
            shown, vpc = clips.detach().requires_grad_(), len(clips) // len(classes)
            labels = torch.tensor(classes).repeat_interleave(vpc)
            losses = (
                cross_entropy(network(shown.transpose(1, 2)), labels, reduction="none").view(-1, vpc).sum(dim=1)
            )
            (gradients,) = torch.autograd.grad(losses.sum(), shown)
            return Compared(losses.detach(), gradients, {"draw": float(torch.rand((), generator=generator))})

        return compare


class TwoColours(Network):
    """The mean colour of a clip, and that of its first frame."""

    embed_dim = 6

    def __init__(self, **shape):
        super().__init__(**shape)
        self.classifier = nn.Linear(6, self.num_classes)

    def embed(self, clips):
        return torch.cat([clips.mean(dim=(2, 3, 4)), clips[:, :, 0].mean(dim=(2, 3))], dim=1)

    def forward(self, clips):
        return self.classifier(self.embed(clips))


NAME = f"{__name__}:Loud(times=1.1)"


def test_a_rule_of_ones_own_makes_one_set_as_an_object_and_by_its_name(store):
    as_object, by_name = (condense(store, insertion=rule, **TINY) for rule in (Loud(times=1.1), NAME))
    assert as_object.to_bytes() == by_name.to_bytes()
    assert as_object.source["config"]["insertion"] == NAME
    assert as_object.num_keyframes > 4
    assert as_object.to_bytes() != condense(store, insertion=Loud(times=1.2), **TINY).to_bytes()


def test_a_run_is_resumed_with_the_same_rule_and_no_other(store, tmp_path, crashing_at: CrashingAt):
    with crashing_at(3):
        condense(store, insertion=Loud(times=1.1), output=tmp_path / "set", checkpoint_seconds=0, **TINY)
    with pytest.raises(ArtifactError, match=r"config\.insertion is .*times=1\.1.*, not .*times=2\.0"):
        condense(store, insertion=Loud(times=2.0), output=tmp_path / "set", resume=True, **TINY)
    resumed = condense(store, insertion=NAME, output=tmp_path / "set", resume=True, **TINY)
    assert resumed.to_bytes() == condense(store, insertion=NAME, **TINY).to_bytes()


def test_the_classes_are_condensed_one_by_one_with_a_rule_of_ones_own(store, tmp_path):
    with ThreadPoolExecutor(2) as executor:
        merged = condense(store, insertion=Loud(times=1.1), output=tmp_path / "set", executor=executor, **TINY)
    assert merged.to_bytes() == condense(store, insertion=NAME, **TINY).to_bytes()


def test_a_rule_that_does_not_promise_to_judge_every_video_by_itself_is_not_spread_over_machines(store, tmp_path):
    options = TINY | {"output": tmp_path / "set"}
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(ConfigError, match=r"and insertion rule .*:Loudest condenses all classes together"):
            condense(store, insertion=Loudest(), executor=executor, **options)
        assert list(tmp_path.iterdir()) == []
        merged = condense(store, insertion=Silent(), executor=executor, **options)
    assert merged.to_bytes() == condense(store, insertion=Silent(), **TINY).to_bytes()


def test_an_objective_with_a_trained_network_fits_the_loop_and_its_numbers_are_recorded(store, tmp_path):
    made = condense(store, objective=Recognised(epochs=2), output=tmp_path / "set", **TINY)
    assert made.source["config"]["objective"] == f"{__name__}:Recognised(epochs=2)"
    steps = Telemetry.load(telemetry_path(tmp_path / "set")).of_kind("step")
    assert len({step["draw"] for step in steps}) == len(steps) == 6
    assert all(step["between_class"] is None for step in steps)


def test_an_objective_whose_classes_depend_on_each_other_is_not_spread_over_machines(store, tmp_path):
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(ConfigError, match=r"objective .*Recognised condenses all classes together"),
    ):
        condense(store, objective=Recognised(), output=tmp_path / "set", executor=executor, **TINY)


def test_the_objective_of_the_paper_is_not_recorded_so_that_sets_keep_their_bytes(store):
    assert "objective" not in condense(store, **TINY).source["config"]


class Failing(Float32):
    """Fails on key-frames that were trained."""

    is_mended = False

    def encode(self, frames, mask, scale=1):
        if frames.std() > 0 and not self.is_mended:
            raise RuntimeError("no bits left")
        return super().encode(frames, mask, scale)


class Odd(Float32):
    """Gives something else than it should."""

    def __init__(self, given):
        self.given = given

    def encode(self, frames, mask, scale=1):
        return self.given(frames, mask, scale)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lambda *frames: 1 / 0, "fails: ZeroDivisionError: division by zero"),
        (lambda *frames: None, "fails: TypeError"),
        (
            lambda frames, mask, scale: Float32().encode(enlarge(frames, scale), mask, scale),
            r"cannot store key-frames at scale 2: key-frames must be \(2, 3, 24, 24\)",
        ),
        (
            lambda frames, mask, scale: Float32().encode(frames.repeat(2, 1, 1, 1, 1), mask.repeat(2, 1), scale),
            "cannot store key-frames at scale 2: its tensors do not belong together",
        ),
    ],
)
def test_a_storage_that_cannot_encode_is_refused_before_the_first_iteration(store, tmp_path, given, sentence):
    options = TINY | {"keyframe_scale": 2, "storage": Odd(given), "output": tmp_path / "set"}
    with pytest.raises(ConfigError, match=f"the storage 'Odd' {sentence}"):
        condense(store, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_storage_that_fails_at_the_end_loses_no_iteration(store, tmp_path, monkeypatch):
    options = TINY | {"storage": Failing(), "output": tmp_path / "set"}
    with pytest.raises(ConfigError, match="RuntimeError: no bits left"):
        condense(store, **options)
    monkeypatch.setattr(Failing, "is_mended", True)
    monkeypatch.setattr(Condensation, "step", None)
    resumed = condense(store, resume=True, **options)
    monkeypatch.undo()
    exact = condense(store, **TINY)
    assert torch.equal(resumed.render(), exact.render())


class Halved(Encoding):
    """Every second frame, in 256 levels."""

    NAME: ClassVar = "halved"
    TENSORS: ClassVar = {"levels": (torch.uint8, 5)}

    def encode(self, frames, mask, scale=1):
        clips = enlarge(render(frames, mask), scale)
        return {"levels": (clips[:, ::2] * 255).round().clamp(0, 255).byte()}

    @property
    def mask(self):
        return (torch.arange(self.num_frames) % 2 == 0).repeat(len(self.tensors["levels"]), 1)

    def render(self, videos, normalisation, generator):
        return (self.tensors["levels"][videos] / 255).repeat_interleave(2, dim=1)[:, : self.num_frames]


class Shared(Halved):
    """The same with a tensor that is none of each video."""

    TENSORS: ClassVar = {**Halved.TENSORS, "largest": (torch.float32, 1)}

    def encode(self, frames, mask, scale=1):
        return {**super().encode(frames, mask, scale), "largest": torch.ones(1)}

    def problem(self, num_videos):
        return super().problem(num_videos) or (None if len(self.tensors["largest"]) == 1 else "two of them")


def test_the_classes_of_an_encoding_of_ones_own_are_joined_where_it_can_be(store, tmp_path):
    whole = condense(store, storage=Halved(), **TINY)
    with ThreadPoolExecutor(2) as executor:
        merged = condense(store, storage=Halved(), output=tmp_path / "set", executor=executor, **TINY)
    assert merged.to_bytes() == whole.to_bytes()


def test_an_encoding_that_cannot_be_joined_is_refused_before_a_class_is_condensed(store, tmp_path, monkeypatch):
    monkeypatch.setattr(Condensation, "step", None)
    options = TINY | {"storage": Shared(), "output": tmp_path / "set"}
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(ConfigError, match="halved' cannot be joined"),
    ):
        condense(store, executor=executor, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_finished_set_in_an_encoding_of_ones_own_is_not_made_again(store, tmp_path, monkeypatch):
    options = TINY | {"storage": Shared(), "output": tmp_path / "set"}
    made = condense(store, **options)
    monkeypatch.setattr(Condensation, "step", None)
    assert condense(store, resume=True, **options).to_bytes() == made.to_bytes()


class Given(Objective):
    """One that compares nothing."""

    def __init__(self, given):
        self.given = given

    def start(self, store, config, device, classes):
        return lambda clips, iteration, generator, view: self.given(torch.zeros(len(classes)), clips)


NAN = float("nan")


@pytest.mark.parametrize(
    ("given", "options", "sentence"),
    [
        (
            lambda losses, clips: Compared(losses, clips * NAN),
            {"lr": 0.0},
            "gradients are not finite before the first iteration. Look at obj",
        ),
        (lambda losses, clips: Compared(losses * NAN, clips), {}, "'class0' is not finite at iteration 0, before"),
        (
            lambda losses, clips: Compared(losses, clips, {"mine": NAN, "other": 1.0}),
            {},
            "'mine' in the telemetry is not finite, in the record 'step' of iteration 0",
        ),
        (
            lambda losses, clips: Compared(losses, clips * NAN),
            {"insertion": "gradient", "iterations": 1},
            "'quantiles' in the telemetry is not finite, in the record 'cosines' of iteration 0",
        ),
    ],
)
def test_an_objective_that_is_not_finite_is_named_with_what_is_not(store, tmp_path, given, options, sentence):
    with pytest.raises(DivergedError, match=sentence) as caught:
        condense(store, objective=Given(given), output=tmp_path / "set", **(TINY | options))
    assert "learning rate is too high" not in str(caught.value)


class Overflowing(TwoColours):
    def embed(self, clips):
        return super().embed(clips) * NAN


@pytest.mark.parametrize("output", ["set", None])
def test_a_network_whose_embeddings_are_not_finite_is_refused_in_one_sentence(store, tmp_path, output):
    options = TINY | {"model": Overflowing, "width": 0, "lr": 0.0, "output": output and tmp_path / output}
    with pytest.raises(DivergedError, match="not finite"):
        condense(store, **options)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lambda losses, clips: None, "it gives a NoneType, not a Compared"),
        (lambda losses, clips: Compared(losses.tolist(), clips), r"losses must be \(C,\) = \(2,\), got a list"),
        (lambda losses, clips: Compared(losses.sum(), clips), r"losses must be \(C,\) = \(2,\), got \(\)"),
        (
            lambda losses, clips: Compared(losses.repeat(2), clips),
            r"losses must be \(C,\) = \(2,\), got \(4,\)",
        ),
        (lambda losses, clips: Compared(losses, clips[:1]), r"gradients must be \(2, 8, 3, 48, 48\), got \(1, 8,"),
        (
            lambda losses, clips: Compared(losses, clips.long()),
            r"gradients must be of torch\.float32, got torch\.int64",
        ),
        (
            lambda losses, clips: Compared(losses, clips.double()),
            r"gradients must be of torch\.float32, got torch\.float64",
        ),
        (lambda losses, clips: Compared(losses, clips.mul_(0.5)), r"it changes the clips .* clips\.clone\(\)"),
        (
            lambda losses, clips: Compared(losses, clips.detach().zero_()),
            r"it changes the clips .* clips\.clone\(\)",
        ),
        (lambda losses, clips: Compared(losses, clips, {"lr": 1.0}), "'lr' is a name of the telemetry's own"),
        (lambda losses, clips: Compared(losses, clips, {"kind": 1}), "'kind' is a name of the telemetry's own"),
        (
            lambda losses, clips: Compared(losses, clips, {1: 1.0}),
            "what it records must have texts as names, got 1",
        ),
        (lambda losses, clips: Compared(losses, clips, {"mine": losses}), "'mine' must be one number"),
        (lambda losses, clips: Compared(losses, clips, {"mine": object()}), "'mine' must be one number"),
    ],
)
@pytest.mark.parametrize("lr", [0.0, 1.0])
def test_an_objective_that_gives_something_else_is_refused_in_one_sentence(store, tmp_path, given, sentence, lr):
    with pytest.raises(ConfigError, match=rf"objective '{__name__}:Given\(.*\)' cannot be used: {sentence}"):
        condense(store, objective=Given(given), output=tmp_path / "set", **(TINY | {"lr": lr}))


@dataclass(frozen=True)
class Starting(Objective):
    """Starts with something else than a function."""

    given: object

    def start(self, store, config, device, classes):
        return self.given


@pytest.mark.parametrize(("given", "got"), [(None, "a NoneType"), ("distance", "a str")])
@pytest.mark.parametrize("lr", [0.0, 1.0])
def test_an_objective_that_starts_no_function_is_refused_in_one_sentence(store, given, got, lr):
    sentence = rf"objective '{__name__}:Starting.*' cannot be used: start must return a function, got {got}\. docs"
    with pytest.raises(ConfigError, match=sentence):
        condense(store, objective=Starting(given), **(TINY | {"lr": lr}))
    with pytest.raises(AssertionError, match=sentence):
        check_objective(Starting(given), store)


class Proposing(InsertionRule):
    def __init__(self, given):
        self.given = given

    def propose(self, occasion):
        return self.given(occasion.conflict.mask)


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (lambda mask: None, "None"),
        (lambda mask: mask.numpy(), "ndarray"),
        (lambda mask: mask[:1], r"\(1, 8\) of torch.bool"),
        (lambda mask: mask.flatten(), r"\(16,\) of torch.bool"),
        (lambda mask: mask.float(), r"\(2, 8\) of torch.float32"),
        (lambda mask: mask.long(), r"\(2, 8\) of torch.int64"),
    ],
)
def test_a_rule_that_proposes_something_else_is_refused_in_one_sentence(store, tmp_path, given, got):
    sentence = rf"rule '{__name__}:Proposing\(.*\)' must propose \(V, T\) = \(2, 8\) booleans, got .*{got}"
    with pytest.raises(ConfigError, match=sentence):
        condense(store, insertion=Proposing(given), output=tmp_path / "set", **TINY)
