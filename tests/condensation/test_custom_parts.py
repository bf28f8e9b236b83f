"""Custom parts: an object or a name, recorded, resumed, and checked at their first use."""

from dataclasses import dataclass

import pytest
import torch
from conftest import CrashingAt
from settings import PAPER, load_telemetry

from prism.artifacts.condensed import CondensedSet
from prism.artifacts.encodings.sparse import Float32
from prism.artifacts.telemetry import telemetry_path
from prism.condensation.condense import condense
from prism.condensation.loop import Condensation
from prism.condensation.objectives import DistributionMatching, MatchLoss, Objective
from prism.condensation.rules import InsertionRule
from prism.condensation.videos import Method, Videos
from prism.errors import ArtifactError, ConfigError, DivergedError
from prism.selection.select import select

SHORT = {"iterations": 6, "batch_real": 2, "width": 2, "warmup": 0.0, "cooldown": 0.0, "device": "cpu"}
TINY = {key: value for key, value in PAPER.items() if key != "insertion"} | SHORT


@dataclass(frozen=True)
class Loud(InsertionRule):
    """Frames whose gradient has more than `times` the mean energy."""

    times: float = 1.5

    def propose(self, state):
        energy = state.gradients.flatten(2).square().sum(dim=2)
        return energy > self.times * energy.mean(dim=1, keepdim=True)


NAME = f"{__name__}:Loud(times=1.1)"


def test_a_run_is_resumed_with_the_same_rule_and_no_other(store, tmp_path, crashing_at: CrashingAt):
    with crashing_at(3):
        condense(store, insertion=Loud(times=1.1), output=tmp_path / "set", checkpoint_seconds=0, **TINY)
    with pytest.raises(ArtifactError, match=r"--insertion is .*times=1\.1.*, not .*times=2\.0"):
        condense(store, insertion=Loud(times=2.0), output=tmp_path / "set", resume=True, **TINY)
    resumed = condense(store, insertion=NAME, output=tmp_path / "set", resume=True, **TINY)
    assert resumed.to_bytes() == condense(store, insertion=NAME, **TINY).to_bytes()
    assert len(load_telemetry(telemetry_path(tmp_path / "set"))["insertion"]) == resumed.num_keyframes - 4 > 0


class Watching(DistributionMatching):
    """Distribution matching, which records a number."""

    def match(self, network, real, clips, chunk):
        found = super().match(network, real, clips, chunk)
        return MatchLoss(found.losses, found.gradients, {"largest": found.losses.max()})


def test_the_numbers_of_an_objective_are_recorded_and_those_of_the_paper_leave_a_set_as_it_is(store, tmp_path):
    made = condense(store, objective=Watching(), output=tmp_path / "set", **TINY)
    assert made.source["config"]["objective"] == f"{__name__}:Watching"
    steps = load_telemetry(telemetry_path(tmp_path / "set"))["step"]
    assert all(0 < step["largest"] < step["loss"] and step["between_class"] is None for step in steps)
    exact = condense(store, **TINY)
    assert "objective" not in exact.source["config"]
    assert torch.equal(made.render(), exact.render())


@dataclass(frozen=True)
class Slow(Watching):
    """Has a field that is an option of the run."""

    momentum: float = 0.5


def test_a_field_that_sets_an_option_of_the_run_is_said(store, capfd):
    condense(store, objective=Slow(), **TINY)
    said = "Caution: momentum = 0.5, of the objective, is the option of the run as well.\n"
    assert said in capfd.readouterr().err


@dataclass(frozen=True)
class Given(Objective):
    """Gives what a test wants."""

    given: object

    def match(self, network, real, clips, chunk):
        return self.given(torch.zeros(len(real)), clips)


@dataclass(frozen=True)
class Careless(Objective):
    """Gives other losses, or other rows of real clips, than it must."""

    losses: object = lambda found: found
    rows: object = lambda means: means

    def real(self, networks, iteration):
        return self.rows(networks.class_means(iteration))

    def loss(self, real, embeddings):
        return self.losses(embeddings.mean((1, 2)))


@pytest.mark.parametrize(
    ("careless", "sentence"),
    [
        ({"losses": torch.sum}, r"loss\(…\) must give a tensor \(\d,\) with its gradient, .*, got tensor\("),
        ({"losses": torch.detach}, r"loss\(…\) must give a tensor"),
        ({"losses": lambda found: None}, r"loss\(…\) .*, got None"),
        ({"rows": lambda means: means.repeat(9, 1)}, r"real\(…\) must give a row for each class, got 18"),
        ({"rows": lambda means: means[:0]}, r"real\(…\) must give a row for each class, got 0"),
    ],
)
def test_losses_and_rows_that_are_not_one_for_each_class_are_refused(store, careless, sentence):
    with pytest.raises(ConfigError, match=sentence):
        condense(store, objective=Careless(**careless), **TINY)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lambda losses, clips: None, "a MatchLoss, got a NoneType"),
        (lambda losses, clips: MatchLoss(losses.sum(), clips), r"losses \(C,\) = \(2,\), got \(\)"),
        (lambda losses, clips: MatchLoss(losses, clips[:1]), r"gradients \(2, 8, 3, 48, 48\) .*, got \(1, 8,"),
        (lambda losses, clips: MatchLoss(losses, clips.double()), r"gradients .*\.float32, got .*\.float64"),
        (lambda losses, clips: MatchLoss(losses, clips, {"loss": 1.5}), "recorded numbers, none of them called"),
        (lambda losses, clips: MatchLoss(losses, clips, {"mine": losses}), "recorded numbers, .*, got a dict"),
    ],
)
def test_an_objective_that_gives_something_else_is_refused_at_its_first_use(store, tmp_path, given, sentence):
    with pytest.raises(ConfigError, match=rf"objective '{__name__}:Given\(.*\)' must give {sentence}"):
        condense(store, objective=Given(given), output=tmp_path / "set", **TINY)


NOT_FINITE = [
    (lambda losses, clips: MatchLoss(losses, clips * NAN), {"lr": 0.0}, "gradients are not finite before"),
    (lambda losses, clips: MatchLoss(losses * NAN, clips), {}, "'class0' is not finite at iteration 0. Noth"),
    (lambda losses, clips: MatchLoss(losses, clips, {"mine": NAN}), {}, "iteration 0 is not finite: {'mine'"),
]


@pytest.mark.parametrize(("given", "options", "sentence"), NOT_FINITE)
def test_an_objective_that_is_not_finite_is_named_with_what_is_not(store, tmp_path, given, options, sentence):
    with pytest.raises(DivergedError, match=sentence) as caught:
        condense(store, objective=Given(given), output=tmp_path / "set", **(TINY | options))
    assert "learning rate is too high" not in str(caught.value)


class Proposing(InsertionRule):
    def __init__(self, given):
        self.given = given

    def propose(self, state):
        return self.given(state.mask)


@pytest.mark.parametrize(
    ("given", "got"),
    [(lambda it: it[:1], r"\(1, 8\) of torch.bool"), (lambda it: it.float(), r"\(2, 8\) of torch.float32")],
)
def test_a_rule_that_proposes_something_else_is_refused_at_its_first_use(store, given, got):
    sentence = rf"rule '{__name__}:Proposing\(.*\)' must give \(V, T\) = \(2, 8\) booleans, got {got}"
    with pytest.raises(ConfigError, match=sentence):
        condense(store, insertion=Proposing(given), **TINY)


def test_a_rule_may_mark_the_frames_that_it_proposes_in_the_mask_of_its_state(store):
    rules = Proposing(torch.ones_like), Proposing(lambda mask: mask.fill_(True))
    given, marked = (condense(store, insertion=rule, **TINY).render() for rule in rules)
    assert torch.equal(given, marked)


class Greys(Videos):
    """One grey value for each video."""

    def render(self, iteration):
        clips = torch.zeros(len(self.labels), self.mask.shape[1], 3, 48, 48)
        return clips + self.parts["grey"][:, None, None, None, None]


@dataclass(frozen=True)
class Grey(Method):
    """Grey videos, and nothing else than how they are rendered."""

    value: float = 0.5

    def start(self, store, config, device, classes):
        labels = torch.tensor(classes).repeat_interleave(config.vpc)
        return Greys({"grey": torch.full((len(labels),), self.value)}, labels, store.num_frames, config)


STILL = TINY | {"iterations": 0, "insertion": "never"}


def test_a_set_holds_every_frame_as_it_is_rendered_if_its_storage_can(store):
    made = condense(store, method=Grey(), **STILL)
    assert torch.allclose(made.render(), store.normalisation.invert(torch.full((2, 8, 3, 48, 48), 0.5)))
    with pytest.raises(DivergedError, match=r"a key-frame has reached .*, which float16 cannot hold"):
        condense(store, method=Grey(1e6), storage="float16", **STILL)


def heedless(labels, num_frames=8):
    """A method that starts with grey videos of these labels, whatever the options say."""

    def start(self, store, config, device, classes):
        return Greys({"grey": torch.full((len(labels),), 0.5)}, labels, num_frames, config)

    return type("Heedless", (Method,), {"start": start})()


def test_videos_that_can_start_from_no_set_say_so(store, tmp_path):
    select(store, output=tmp_path / "set")
    with pytest.raises(ConfigError, match=r"the videos of this method start from no set\. Leave out --init"):
        condense(store, **(STILL | {"method": Grey(), "init": tmp_path / "set"}))


class Nothing(Method):
    def start(self, store, config, device, classes):
        return None


class Sideways(Grey):
    """Colours before frames, as networks have them."""

    def start(self, store, config, device, classes):
        videos = super().start(store, config, device, classes)
        videos.render = lambda iteration: Greys.render(videos, iteration).transpose(1, 2)
        return videos


NAN = float("nan")


class Spoiled(Grey):
    """Not finite from the start."""

    def start(self, store, config, device, classes):
        videos = super().start(store, config, device, classes)
        videos.render = lambda iteration: Greys.render(videos, iteration) * NAN
        return videos


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (Spoiled(), r"Spoiled' must give finite clips \(n, 8"),
        (Nothing(), "Nothing' must give Videos from start, got a NoneType"),
        (heedless([0, 0, 1, 1]), "Heedless' must give the labels .*, got a list"),
        (heedless(torch.tensor([0, 1, 0, 1])), r"must give the labels \[0, 0, 1, 1\], one class after the other"),
        (heedless(torch.tensor([0, 0, 1, 1]), 9), r"Heedless' must give a mask \(V, T\) = \(4, 8\), got \(4, 9\)"),
        (
            Sideways(),
            r"Sideways' must give finite clips \(n, 8, 3, 48, 48\), as many of each of 2 classes, "
            r"with gradient, got \(",
        ),
    ],
)
def test_a_method_that_starts_or_renders_something_else_is_refused(store, monkeypatch, method, sentence):
    monkeypatch.setattr(Condensation, "step", None)
    with pytest.raises(ConfigError, match=sentence):
        condense(store, method=method, **(STILL | {"vpc": 2}))


class Brightening(Videos):
    """Still videos, which grow brighter from the fourth iteration on."""

    def render(self, iteration):
        light = torch.linspace(0, 1, 8).square() * (iteration >= 4)
        return self.parts["grey"].view(-1, 1, 1, 1, 1) + light.view(-1, 1, 1, 1).expand(8, 3, 48, 48)


class Staged(Method):
    """Brightening videos, of whose frames an insertion rule may propose all but the first."""

    def preparation(self):
        return 4

    def start(self, store, config, device, classes):
        labels = torch.tensor(classes).repeat_interleave(config.vpc)
        videos = Brightening({"grey": torch.full((len(labels),), 0.5)}, labels, store.num_frames, config)
        videos.mask[:, 1:] = False
        return videos


def test_a_set_holds_every_frame_as_it_is_rendered_last_whatever_the_mask_and_the_stages(store):
    made = condense(store, method=Staged(), **(STILL | {"iterations": 1, "lr": 1e-30}))
    last = (0.5 + torch.linspace(0, 1, 8).square()).view(1, 8, 1, 1, 1).expand(2, 8, 3, 48, 48)
    assert torch.allclose(made.render(), store.normalisation.invert(last), atol=1e-6)
    assert len(condense(store, method=Staged(), **(STILL | {"lr": 0.0}))) == 2


class Failing(Float32):
    """Fails on key-frames that were trained."""

    is_mended = False

    def encode(self, frames, mask, scale=1):
        if frames.std() > 0.1 and not self.is_mended:
            raise RuntimeError("no bits left")
        return super().encode(frames, mask, scale)


def test_a_storage_that_fails_at_the_end_loses_no_iteration(store, tmp_path, monkeypatch):
    options = TINY | {"storage": Failing(), "output": tmp_path / "set"}
    with pytest.raises(RuntimeError, match="no bits left"):
        condense(store, **options)
    monkeypatch.setattr(Failing, "is_mended", True)
    monkeypatch.setattr(Condensation, "step", None)
    resumed = condense(store, resume=True, **options)
    monkeypatch.undo()
    assert torch.equal(resumed.render(), condense(store, **TINY).render())


def test_a_set_that_cannot_be_written_loses_no_iteration(store, tmp_path, monkeypatch):
    options = TINY | {"output": tmp_path / "set"}
    with monkeypatch.context() as broken:
        broken.setattr(CondensedSet, "to_bytes", lambda condensed: b"" + condensed)
        with pytest.raises(TypeError):
            condense(store, **options)
    monkeypatch.setattr(Condensation, "step", None)
    resumed = condense(store, resume=True, **options)
    assert len(load_telemetry(telemetry_path(tmp_path / "set"))["end"]) == 1
    monkeypatch.undo()
    assert torch.equal(resumed.render(), condense(store, **TINY).render())


class Broken(Float32):
    def encode(self, frames, mask, scale=1):
        return {}


def test_a_storage_that_cannot_encode_is_refused_before_the_first_iteration(store, tmp_path, monkeypatch):
    monkeypatch.setattr(Condensation, "step", None)
    with pytest.raises(ConfigError, match="the storage 'Broken' cannot store key-frames at scale 2: it must hold"):
        condense(store, **(TINY | {"keyframe_scale": 2, "storage": Broken(), "output": tmp_path / "set"}))
    assert list(tmp_path.iterdir()) == []
