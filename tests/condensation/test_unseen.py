"""What a set says of its classes to networks that it was never trained on."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest
import torch
from settings import PAPER

from prism.artifacts.telemetry import Telemetry, telemetry_path
from prism.condensation import condense as verb
from prism.condensation.condense import condense
from prism.condensation.objectives import DistributionMatching
from prism.condensation.options import CondenseConfig
from prism.condensation.static_dynamic import StaticDynamic
from prism.condensation.stream import DrawnNetwork, NetworkStream
from prism.condensation.unseen import NUM_NETWORKS, Likeness, Unseen, sentence_of
from prism.errors import DivergedError
from prism.machine.run import Run

CPU = torch.device("cpu")
TINY = PAPER | {"width": 2, "batch_real": 2, "iterations": 6, "device": "cpu"}
MEANS = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))


def test_the_real_means_themselves_are_ideal():
    likeness = Likeness.of(MEANS, MEANS)
    assert likeness.alignment == pytest.approx(1)
    assert (likeness.loss, likeness.nearest) == (0, 1)


def test_the_common_mean_for_every_class_has_the_loss_one_and_no_alignment():
    likeness = Likeness.of(MEANS.mean(dim=0).expand(5, 7), MEANS)
    assert likeness.loss == pytest.approx(1, rel=1e-5)
    assert likeness.alignment == pytest.approx(0, abs=1e-6)
    assert likeness.nearest == pytest.approx(0.2)


def test_alignment_is_linear_in_the_synthetic_differences_and_blind_to_what_classes_share():
    assert Likeness.of(0.5 * MEANS + 3, MEANS).alignment == pytest.approx(0.5, rel=1e-5)
    assert Likeness.of(-MEANS, MEANS).alignment == pytest.approx(-1, rel=1e-5)
    assert Likeness.of(MEANS.roll(1, dims=0), MEANS).nearest == 0


def test_real_class_means_as_clips_are_judged_by_networks_outside_the_stream(make_store):
    store = make_store(train=3, flip=False)
    unseen, clips = Unseen(store, CondenseConfig(width=2), Run(device="cpu")), store.clips("train")
    shown = store.normalisation.apply(clips.frames.float() / 255)
    likeness = unseen.measure(shown)
    # All training clips, three of each class: their means are the real ones.
    assert likeness.loss == pytest.approx(0, abs=1e-3)
    assert (likeness.alignment, likeness.nearest) == (pytest.approx(1, abs=1e-3), 1)
    drawn = DrawnNetwork(NetworkStream(store, CondenseConfig(width=2)), CPU)
    for number in range(NUM_NETWORKS):
        pairs = zip(drawn.draw(number).parameters(), unseen.judge.draw(number).parameters(), strict=True)
        assert not any(torch.equal(*pair) for pair in pairs)


def test_videos_that_have_grown_beyond_numbers_say_so_and_give_no_set(store, tmp_path):
    with pytest.raises(DivergedError, match=r"have grown so far .* The learning rate is too high"):
        condense(store, output=tmp_path / "set", **(TINY | {"iterations": 1, "lr": 1e37}))
    assert not (tmp_path / "set").exists()
    with pytest.raises(DivergedError, match="have grown so far"):
        condense(store, **(TINY | {"iterations": 1, "lr": 1e37}))


def test_judges_do_not_depend_on_how_the_set_is_trained(store):
    found = [
        Unseen(store, CondenseConfig(width=2, **options), Run(device="cpu")).real
        for options in ({}, {"batch_real": 1, "network_seed": 3, "seed": 5, "vpc": 2})
    ]
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_a_run_is_judged_at_its_start_every_so_often_and_at_its_end(store, tmp_path, monkeypatch):
    monkeypatch.setattr(verb, "EVERY", 2)
    condensed = condense(store, output=tmp_path / "set", **TINY)
    judged = Telemetry.load(telemetry_path(tmp_path / "set")).of_kind("unseen")
    assert [record["iteration"] for record in judged] == [0, 2, 4, 6]
    last = {key: value for key, value in judged[-1].items() if key not in ("kind", "iteration")}
    assert last == condensed.source["unseen"]
    assert last.keys() == {"loss", "alignment", "nearest"}


def test_what_is_judged_at_the_end_is_what_is_stored(store):
    exact, coarse = (condense(store, storage=storage, **TINY).source["unseen"] for storage in ("float32", "h264"))
    assert exact != coarse


def test_an_executor_computes_the_judges_class_means_one_network_at_a_time(make_store):
    store, seen = make_store(train=3), []

    class Recorder(ThreadPoolExecutor):
        def submit(self, work, *arguments):
            seen.append(arguments)
            return super().submit(work, *arguments)

    config = CondenseConfig(width=2)
    with Recorder(2) as executor:
        real = Unseen(store, config, Run(device="cpu", executor=executor)).real
        assert len(seen) == NUM_NETWORKS
        Unseen(store, config, Run(device="cpu", executor=executor))
        assert len(seen) == NUM_NETWORKS
    assert all(torch.equal(*pair) for pair in zip(real, Unseen(store, config, Run()).real, strict=True))


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("dm", {"keyframe_scale": 2}, "Caution: method dm fixes keyframe_scale at 1: 2 is not used."),
        ("static-dynamic", {"initial_keyframes": 4}, "fixes initial_keyframes at 2: 4 is not used."),
        (
            "dm",
            {"insertion": "gradient"},
            "Caution: method dm fixes insertion at 'never': 'gradient' is not used.",
        ),
        ("static-dynamic", {"lr": 25.0}, "Caution: method static-dynamic fixes lr at 0.0: 25.0 is not used."),
        ("dm", {"init": "real", "initial_keyframes": 0, "insertion": "never"}, ""),
    ],
)
def test_an_option_that_the_method_fixes_otherwise_is_said_not_to_be_used(store, capfd, method, options, said):
    condense(store, **TINY | {"iterations": 0, "static_iterations": 0, "method": method} | options)
    err = capfd.readouterr().err
    assert said in err if said else "fixes" not in err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": 0.1}, "Caution: epsilon = 0.1 is not used, because insertion = 'never'."),
        ({"method": "dm", "warmup": 0.3}, "Caution: warmup = 0.3 is not used, because insertion = 'never'."),
        ({"insertion": "gradient", "epsilon": 0.1}, ""),
        ({"lr": 1.0, "relative_lr": 0.1}, "Caution: relative_lr = 0.1 is not used, because lr = 1.0."),
        ({"relative_lr": 0.1}, ""),
        ({"static_lr": 5.0}, "Caution: static_lr = 5.0 is not used, because method = 'prism'."),
        ({"method": "static-dynamic", "static_iterations": 0, "static_lr": 5.0}, ""),
        ({"method": StaticDynamic(static_iterations=0, static_lr=5.0)}, ""),
        ({"quality": 10}, "Caution: quality = 10 is not used, because storage = 'float32'."),
        ({"quality": 10, "storage": "h264"}, ""),
        (
            {"fully_learnable": True, "initial_keyframes": 0},
            "Caution: fully_learnable = True is not used, because initial_keyframes = 0.",
        ),
        (
            {"fully_learnable": True, "initial_keyframes": 2, "insertion": "gradient"},
            "Caution: insertion = 'gradient' is not used, because fully_learnable = True.",
        ),
        ({"objective": f"{__name__}:Margin", "epsilon": 0.3}, ""),
    ],
)
def test_an_option_that_another_one_leaves_without_effect_is_said_not_to_be_used(store, capfd, options, said):
    condense(store, **TINY | {"iterations": 0, "insertion": "never", "lr": 0.0} | options)
    err = capfd.readouterr().err
    assert (
        f"{said}\n" in err if said else not any(f"Caution: {name} = " in err for name in (*options, "static_lr"))
    )


@dataclass(frozen=True)
class Margin(DistributionMatching):
    """An objective with an option that rules have, too."""

    epsilon: float = 0.0


def test_an_option_without_effect_is_not_recorded(store):
    still = TINY | {"iterations": 0, "insertion": "never"}
    made = condense(store, **still | {"static_lr": 5.0, "epsilon": 0.1})
    assert (made.source["config"]["static_lr"], made.source["config"]["epsilon"]) == (1.0, 0.0)
    own = condense(store, **still | {"objective": f"{__name__}:Margin", "epsilon": 0.1})
    assert own.source["config"]["epsilon"] == 0.1
    whole = condense(store, **still | {"fully_learnable": True, "initial_keyframes": 2, "insertion": "gradient"})
    assert whole.source["config"]["insertion"] == "never"


@pytest.mark.parametrize(("method", "advice"), [("prism", "--relative-lr"), ("static-dynamic", "--dynamic-lr")])
def test_a_low_alignment_names_the_options_that_the_method_has(store, method, advice):
    made = condense(store, **TINY)
    low = {"loss": 1.0, "alignment": 0.1, "nearest": 0.5}
    assert advice in sentence_of(replace(made, source=made.source | {"method": method, "unseen": low}))
    assert "Try" not in sentence_of(replace(made, source=made.source | {"unseen": low | {"alignment": 0.3}}))
