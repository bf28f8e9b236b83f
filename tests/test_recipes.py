"""The recipes that PRISM ships: every row of the paper has one, with the paper's values, and its commands work."""

import shlex
from itertools import pairwise
from typing import Any

import pytest

from prism.cli import app
from prism.condensation.options import CondenseConfig
from prism.config import with_options
from prism.errors import ConfigError
from prism.networks.options import NETWORKS
from prism.recipes import RECIPES, SECTIONS, read_recipe, shipped_recipes

every_recipe = pytest.mark.parametrize("name", shipped_recipes())


def header(name: str) -> dict[str, list[str]]:
    """The lines of a recipe's first comment, below the word that each part begins with."""
    parts: dict[str, list[str]] = {}
    head = (RECIPES / f"{name}.toml").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    assert all(line.startswith("#") for line in head)
    for line in head[2:]:
        key, text = line[2:12].strip(), line[13:]
        if key:
            parts[key] = []
        parts[list(parts)[-1]].append(text)
    return parts


@every_recipe
def test_every_recipe_is_valid_and_says_command_hardware_minutes_and_what_to_expect(name):
    assert read_recipe(name)
    parts = header(name)
    assert list(parts)[:4] == ["command", "hardware", "minutes", "expected"]
    assert all("".join(lines).strip() for lines in parts.values())


def parsed(command: list[str]) -> Any:
    """The options of a verb that a command chooses."""
    _, bound, _ = app.parse_args(command, exit_on_error=False, print_error=False)
    return bound.arguments.get("config")


@every_recipe
def test_every_command_of_a_recipe_is_understood_and_reads_it(name):
    lines = "\n".join(header(name)["command"]).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("prism ")]
    for command in commands:
        config = parsed(command)
        named = [word for flag, word in pairwise(command) if flag == "--recipe"]
        given = {flag[2:].replace("-", "_"): word for flag, word in pairwise(command) if flag.startswith("--")}
        recipe = read_recipe(*named, vpc=int(given.get("vpc", 0)) or None)
        for key, value in recipe.get(command[0], {}).items():
            assert key in given or getattr(config, key) == value
    assert "make demo" in lines or any(name in command for command in commands)


@pytest.mark.parametrize("verb", ["motion -o f", "ingest f -o f", "evaluate f --data f -o f", "export f -o f"])
def test_a_verb_without_videos_per_class_is_not_refused_a_recipe_whose_numbers_begin_above_one(tmp_path, verb):
    (path := tmp_path / "recipe").write_text("[condense]\nlr = { 5 = 25.0 }\n")
    parsed([*verb.split(), "--recipe", str(path)])
    with pytest.raises(ConfigError, match=r"has no value for --vpc 1\."):
        parsed(["condense", "f", "-o", "f", "--recipe", str(path)])


# The paper's values, each with its place. Where a recipe has no such key, the default of the option must be it.
PRESETS: dict[str, dict[str, Any]] = {
    # Section 4.1, and the appendix's table "Hyperparameters" for the learning rate and the real batch.
    "miniucf": {"ingest": {"layout": "miniucf", "num_frames": 16, "stride": 4, "size": 112}},
    "hmdb51": {"ingest": {"layout": "hmdb51", "num_frames": 16, "stride": 4, "size": 112}},
    "kinetics400": {"ingest": {"layout": "kinetics400", "num_frames": 8, "size": 64}},
    "ssv2": {"ingest": {"layout": "ssv2", "num_frames": 8, "size": 64}},
}
HYPERPARAMETERS = {
    ("miniucf", 1): (1.0, 64),
    ("miniucf", 5): (25.0, 64),
    ("miniucf", 10): (50.0, 64),
    ("hmdb51", 1): (0.7, 64),
    ("hmdb51", 5): (25.0, 64),
    ("hmdb51", 10): (75.0, 64),
    ("kinetics400", 1): (1.0, 64),
    ("kinetics400", 5): (50.0, 128),
    ("ssv2", 1): (3.0, 64),
    ("ssv2", 5): (30.0, 128),
    # Section 5, "Scaling under Equivalent Storage", which does not state them: those of VPC 10.
    ("miniucf", 30): (50.0, 64),
    ("hmdb51", 30): (75.0, 64),
}
"""Learning rate and real batch by recipe and VPC (appendix, table "Hyperparameters")."""

SMALL = ("init", "initial_keyframes", "keyframe_scale", "metric", "insertion", "lr", "relative_lr", "decay")
DM = {"method": "dm", "init": "real", "initial_keyframes": 0, "keyframe_scale": 1, "insertion": "never"}
STEPS = {"iterations": 5000, "decay": "constant", "batch_real": 64}
PAPER = {
    "method": "prism",
    "init": "noise",
    "initial_keyframes": 2,
    "keyframe_scale": 1,
    "metric": "parameter",
    "momentum": 0.95,
    "insertion": "gradient",
}
OWN: dict[str, dict[str, dict[str, Any]]] = {
    # Section 4.2, "Baselines"; tables 1 to 3.
    "random": {"select": {"method": "random"}},
    "herding": {"select": {"method": "herding", "epochs": 50}},
    "k-center": {"select": {"method": "k-center", "epochs": 50}},
    "takes": {"select": {"method": "random", "takes": 0, "storage": "h264", "quality": 35}},
    "prism": {"condense": {"method": "prism"}},
    # Ours: the defaults, over those of a data set.
    "small-keyframes": {"condense": {key: getattr(CondenseConfig(), key) for key in ("method", *SMALL)}},
    # Sections 3.1 and 4.2, "Implementation details"; 5,000 iterations are those of the protocol that it follows.
    "paper": {"condense": PAPER | STEPS | {"lr": 1.0}},
    "ablations/dm": {"condense": DM},
    # Wang et al.: their script of DM at VPC 1.
    "dm": {"condense": DM | STEPS | {"lr": 30.0, "momentum": 0.5}},
    # Section 5, "Cross-Architecture Generalization".
    **{f"networks/{name}": {"evaluate": {"model": name}} for name in NETWORKS.registry},
    # Section 5, table "Ablation study results", (A) to (D).
    "ablations/without-insertion": {"condense": {"insertion": "never"}},
    "ablations/random-insertion": {"condense": {"insertion": "random"}},
    "ablations/l2-insertion": {"condense": {"insertion": "l2"}},
    "ablations/without-warmup": {"condense": {"warmup": 0.0}},
    "ablations/without-cooldown": {"condense": {"cooldown": 0.0}},
    # Section 5, table "Number of Initial Key-Frames"; 2 is the default.
    **{f"ablations/initial-keyframes-{n}": {"condense": {"initial_keyframes": n}} for n in (3, 4, 6, 8)},
    # Appendix: "Effect of Initialization Strategy", "ε Sweep" (0 is the default), "Warm-Up and Cool-Down".
    "ablations/fully-learnable": {"condense": {"fully_learnable": True}},
    **{f"ablations/epsilon{e:+}": {"condense": {"epsilon": e}} for e in (-0.3, -0.2, -0.1, 0.1, 0.2, 0.3)},
    **{f"ablations/schedule-{s}": {"condense": {"warmup": s, "cooldown": s}} for s in (0.0, 0.1, 0.3)},
}
"""Recipes for any data set, with all that they say."""


def chosen(section: str, *names: str) -> Any:
    """The options of a verb, defaults included, that recipes laid over each other choose."""
    return with_options(SECTIONS[section](), read_recipe(*names).get(section, {}))


@pytest.mark.parametrize("name", PRESETS)
def test_a_data_set_is_sampled_as_in_the_paper(name):
    for key, value in PRESETS[name]["ingest"].items():
        assert getattr(chosen("ingest", name), key) == value


@pytest.mark.parametrize(("name", "vpc"), HYPERPARAMETERS)
def test_learning_rate_and_real_batch_are_those_of_the_papers_table(name, vpc):
    given = f"store -o set --recipe {name} --vpc {vpc}".split()
    condense, select = (parsed([verb, *given]) for verb in ("condense", "select"))
    assert (condense.lr, condense.batch_real) == HYPERPARAMETERS[name, vpc]
    assert (condense.method, condense.momentum, condense.epsilon) == ("prism", 0.95, 0.0)
    assert (condense.warmup, condense.cooldown, condense.initial_keyframes) == (0.2, 0.2, 2)
    assert condense.metric == "parameter"
    assert select.vpc == condense.vpc == vpc
    evaluate = chosen("evaluate", name)
    assert (evaluate.epochs, evaluate.lr, evaluate.seeds, evaluate.model) == (500, 0.01, 3, "convnet3d")
    assert chosen("ingest", name) == with_options(SECTIONS["ingest"](), read_recipe(name, vpc=vpc)["ingest"])


@pytest.mark.parametrize("name", OWN)
def test_a_recipe_for_any_data_set_says_its_own_options_and_no_more(name):
    assert read_recipe(name) == OWN[name]


@pytest.mark.parametrize("name", [name for name in shipped_recipes() if "/" in name])
def test_a_recipe_laid_over_a_data_sets_leaves_the_rest_as_it_was(name):
    for data, vpc in (("hmdb51", 5), ("ssv2", 1)):
        alone, both = read_recipe(data, vpc=vpc), read_recipe(data, name, vpc=vpc)
        changed = {(s, k) for s in both for k in both[s] if both[s][k] != alone.get(s, {}).get(k)}
        assert changed <= {(section, key) for section, options in OWN[name].items() for key in options}
        assert both["condense"]["lr"] == alone["condense"]["lr"]


@pytest.mark.parametrize(("vpc", "rates"), [(1, (1e-4, 1e-5)), (5, (1e3, 1e-6))])
def test_static_dynamic_has_the_published_rates(vpc, rates):
    for names in (("static-dynamic",), ("hmdb51", "static-dynamic")):
        condense = with_options(CondenseConfig(), read_recipe(*names, vpc=vpc)["condense"])
        assert (condense.method, condense.momentum) == ("static-dynamic", 0.95)
        assert (condense.dynamic_lr, condense.hallucinator_lr, condense.iterations) == (*rates, 5000)
