"""Options are said once: dictionaries, types and ranges agree, and a wrong recipe names the right key."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from settings import refusal_of

from prism.condensation.options import CondenseConfig
from prism.config import Field, as_dict, described, with_options
from prism.errors import ConfigError
from prism.recipes import SECTIONS, read_recipe

FIELDS = [field for options in SECTIONS.values() for field in described(options).values()]
KINDS = {field.parts.kind: field.parts for field in FIELDS if field.parts}


@pytest.mark.parametrize("kind", KINDS)
def test_every_short_name_stands_for_a_part_with_the_methods_of_its_kind(kind):
    for name in KINDS[kind].registry:
        part, _ = KINDS[kind].resolve(name)
        assert not getattr(part, "__abstractmethods__", None)
        assert KINDS[kind].name_of(part) == name


@pytest.mark.parametrize("section", SECTIONS)
def test_the_defaults_of_every_verb_are_allowed_and_survive_a_round_trip(section):
    defaults = SECTIONS[section]()
    assert with_options(SECTIONS[section](), as_dict(defaults)) == defaults


WRONG = {"vpc": ["3", 1.5, np.float64(2), True], "lr": ["1"], "insertion": [1], "fully_learnable": [1]}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]])
def test_a_value_of_the_wrong_type_is_refused(key, value):
    with pytest.raises(ConfigError, match=rf"condense\.{key} = .*must be of type"):
        with_options(CondenseConfig(), {key: value})


def test_a_whole_number_serves_where_a_fraction_is_wanted_and_numpys_are_numbers():
    given = with_options(CondenseConfig(), {"lr": 3, "vpc": np.int64(2), "momentum": np.float32(0.5)})
    found = [(type(value), value) for value in (given.lr, given.vpc, given.momentum)]
    assert found == [(float, 3.0), (int, 2), (float, 0.5)]


def recipe(tmp_path, text: str) -> dict[str, dict[str, Any]]:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return read_recipe(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[condense]\nlr_img = 1.0\n", "unknown key 'condense.lr_img'. Did you mean 'condense.lr'?"),
        ("[condens]\nvpc = 1\n", "Did you mean 'condense'?"),
        ("iterations = 3\n", "'[iterations]' in recipe"),
        ("condense = 1\n", "is not a table of options of a verb."),
        ("[condense]\nvpc = 0\n", "condense.vpc = 0, but it must be at least 1."),
        ("[condense\n", "cannot be read"),
        ("[condense]\nvpc = [1]\n", "must be of type int"),
        ("[condense]\nlr = { 5 = 2.0 }\n", "lr = {'5': 2.0} in a recipe has no value for --vpc 1."),
        ("[condense]\nlr = { few = 2.0 }\n", "lr = {'few': 2.0} in a recipe has no value for --vpc 1."),
        ("[condense]\nlr = { 1 = 2.0, 5 = true }\nvpc = 6\n", "condense.lr = True, but it must be of type float."),
        ("[evaluate]\nepochs = { 1 = 2 }\n", "must be of type int"),
        ('extends = "recipe.toml"', "extends itself in a circle"),
        ("extends = 3", "recipe.toml', but it must be the path of a recipe"),
        ('extends = "nowhere.toml"', "nowhere.toml' cannot be read: no such file"),
    ],
)
def test_a_wrong_recipe_is_refused_in_one_sentence(tmp_path, text, message):
    assert message in (said := refusal_of(ConfigError, recipe, tmp_path, text))
    assert said.count("recipe '") == 1


def test_a_recipe_that_prism_ships_is_read_by_its_name_and_a_file_of_that_name_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert read_recipe("demo")["ingest"]["size"] == 48
    assert read_recipe("ablations/dm")["condense"]["method"] == "dm"
    (tmp_path / "miniucf").write_text("[condense]\nvpc = 7\n")
    assert read_recipe("miniucf")["condense"] == {"vpc": 7}
    with pytest.raises(ConfigError, match=r"recipe 'minuicf' does not exist\. Did you mean 'miniucf'\?"):
        read_recipe("minuicf")


def test_recipes_are_laid_over_each_other_and_checked_together(tmp_path):
    (tmp_path / "base").write_text('[ingest]\nlayout = "ucf101"\n[condense]\nlr = 3.0\nvpc = 2\n')
    (tmp_path / "own").write_text("[ingest]\nofficial_split = 2\n[condense]\nlr = 4.0\n[select]\nvpc = 9\n")
    merged = read_recipe(tmp_path / "base", tmp_path / "own")
    assert merged["ingest"] == {"layout": "ucf101", "official_split": 2}
    assert (merged["condense"], merged["select"]) == ({"lr": 4.0, "vpc": 2}, {"vpc": 9})
    # Alone, the upper one asks for an official split that the default layout does not have.
    assert "official_split = 2" in refusal_of(ConfigError, read_recipe, tmp_path / "own")
    for names, given in ((r"'small' and '.*/wrong'", ["small"]), (r"'.*/wrong'", [])):
        (tmp_path / "wrong").write_text("[select]\nvpc = -1\n")
        with pytest.raises(ConfigError, match=rf"^recipe {names}: select\.vpc = -1, but it must be at least 1\.$"):
            read_recipe(*given, tmp_path / "wrong")


@pytest.mark.parametrize(("vpc", "own", "lr"), [(None, 1, 1), (None, 4, 3), (2, 4, 1), (3, 1, 3), (99, 1, 3)])
def test_an_option_by_videos_per_class_is_that_of_the_largest_number_not_above(tmp_path, vpc, own, lr):
    path = tmp_path / "recipe"
    path.write_text(f"[condense]\nlr = {{ 1 = 1.0, 3 = 3.0 }}\nvpc = {own}\n")
    assert read_recipe(path, vpc=vpc)["condense"] == {"lr": lr, "vpc": own}


@pytest.mark.parametrize(("vpc", "lr"), [(0, 5.0), (5, 5.0), (9, 9.0), (10, 9.0)])
def test_numbers_of_videos_per_class_are_compared_as_numbers_and_none_is_below_the_least(tmp_path, vpc, lr):
    (path := tmp_path / "recipe").write_text("[condense]\nlr = { 09 = 9.0, 05 = 5.0 }\n")
    assert read_recipe(path, vpc=vpc)["condense"] == {"lr": lr}


BEYOND = {
    "positive and below 1e+38, or 0 for relative_lr": ([0.0, 1e-9, 9e37], [-1.0, 1e38, math.nan]),
    "at least 2, or 0 for every frame": ([0, 2, 3], [-1, 1]),
    "at least 2^29": ([2**29], [2**29 - 1]),
    "an even number between 32 and 1024": ([32, 34, 1024], [30, 33, 1026]),
    "a regular expression with a group (…)": (["", "_(g)_"], ["g", "(", "[(]"]),
    "mean, noise, real, or the file of a set": (["mean", "any.file"], [""]),
    "at least 0 and below 1": ([0.0, math.nextafter(1, 0)], [math.nextafter(0, -1), 1.0, math.nan]),
    "positive and below 1e+38": ([5e-324, math.nextafter(1e38, 0)], [0.0, -5e-324, 1e38, math.nan]),
}
"""Of a range that is not two numbers: values inside, and values outside."""
ANY = {int: [0, -1, 2**40], float: [0.0, -1.0], bool: [True, False], str: ["", "any text"]}


def ends(field: Field) -> tuple[list[Any], list[Any]]:
    """Values inside and just outside the range of an option, as its words say."""
    step = math.nextafter if field.kind is float else lambda value, towards: value + (1 if towards > 0 else -1)
    if field.range in BEYOND:
        return BEYOND[field.range]
    if field.parts:
        wrong = ["", "nothing", ":Name", "module:"]
        return [*field.parts.registry, "any.module:Name", "any:Name(option=1)"], wrong
    if field.choices:
        return list(field.choices), ["", "nothing"]
    limits = re.fullmatch(r"(at least|between|above) (\S+?)(?: and (?:at most )?(\S+))?", field.range)
    if limits is None:
        assert not field.range, f"give the range '{field.range}' its ends in BEYOND"
        return ANY[field.kind], []
    low = field.kind(limits[2])
    inside, outside = [low, step(low, math.inf)], [step(low, -math.inf)]
    if limits[1] == "above":
        inside, outside = inside[1:], [*outside, low]
    if limits[3]:
        high = field.kind(limits[3])
        inside, outside = [*inside, high], [*outside, step(high, math.inf)]
    return inside, outside


EVERY = [(section, key) for section, config in SECTIONS.items() for key in described(config)]


@pytest.mark.parametrize(("section", "key"), EVERY)
def test_a_range_holds_what_its_words_say_and_no_more(section, key):
    defaults, field = SECTIONS[section](), described(SECTIONS[section])[key]
    inside, outside = ends(field)
    assert field.group
    assert [value for value in inside if field.problem(value)] == []
    for value in outside:
        said = refusal_of(ConfigError, replace, defaults, **{key: value}).partition(" Did you mean")[0]
        assert said == f"{section}.{key} = {value!r}, but it must be {field.range}."
