"""Parts: a name, a class, a partial and an object of one part mean the same, and are recorded the same."""

import contextlib
import functools
import re
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism.condensation.objectives import CrossEntropy
from prism.condensation.options import OBJECTIVES
from prism.config import OmitDefault, Options, as_dict, at_least, with_options
from prism.errors import ConfigError
from prism.ingestion.options import IngestConfig
from prism.parts import Parts


class Rule:
    """The class from which every part derives."""


@dataclass(frozen=True)
class Ours(Rule):
    """A part as PRISM ships them; the verb has its option as well."""

    epsilon: float = 0.0

    def propose(self) -> float:
        return self.epsilon


@dataclass(frozen=True)
class Theirs(Rule):
    """A part of somebody else: one option that the verb has, others that it has not."""

    epsilon: float = 0.0
    threshold: float = 0.5
    names: tuple[str, ...] = ()
    derived: float = field(init=False, default=1.0)

    def propose(self) -> float:
        return self.epsilon + self.threshold


class Plain(Rule):
    """A part that is no dataclass."""

    def __init__(self, threshold: float, power: int = 2) -> None:
        if threshold < 0:
            raise ValueError("threshold must not be negative.")
        self.threshold, self.power = threshold, power

    def propose(self) -> float:
        return self.threshold**self.power


class Moody(Ours):
    """A part whose constructor raises what it likes."""

    def __init__(self, mood):
        raise KeyError("no such mood") if mood == 1 else ConfigError("there is no mood 2.")


class Guessing(Ours):
    """A part that proposes a word itself, as Python 3.13 does."""

    def __init__(self, threshold=0.0, **words):
        raise TypeError(f"no {', '.join(words)}. Did you mean 'threshold'?")


class Forgetful(Rule):
    """A part whose parameter cannot be read back, so that two of them would be recorded alike."""

    def __init__(self, weight):
        self.propose = lambda: weight


class Alike:
    """No part, though it has the method of one: what else the loop reads of a part is missing."""

    propose = Ours.propose


INSTANCE = Theirs(threshold=3.0)
HERE = __name__
RULES = Parts("rule", f"{HERE}:Rule", {"ours": f"{HERE}:Ours", "strict": f"{HERE}:Theirs(threshold=9.0)"})
UNRELATED = f"does not derive from {HERE}.Rule. See docs/extending.md or docs/api.md."


def function() -> None:
    """No part: a function derives from nothing."""


@dataclass(frozen=True)
class Config(Options, section="verb"):
    rule: Annotated[str, RULES] = "ours"
    second: Annotated[Any, RULES, OmitDefault()] = "ours"
    epsilon: Annotated[float, at_least(0)] = 0.0
    count: Annotated[int, at_least(1)] = 1


def made(value: Any, **options: Any) -> Any:
    config = with_options(Config(), {"rule": value, **options})
    return RULES.make(config.rule, config)


# Ways to say the same part.


@pytest.mark.parametrize(
    "value",
    [
        Theirs(threshold=0.25),
        Theirs(threshold=np.float64(0.25)),
        functools.partial(Theirs, threshold=0.25),
        functools.partial(Theirs, 0.0, 0.25),
        f"{HERE}:Theirs(threshold=0.25)",
        f"{HERE}:Theirs( threshold = 0.25, )",
        f"{HERE}:Theirs(threshold=0.25, epsilon=0.0)",
    ],
)
def test_an_object_a_partial_and_a_name_are_the_same_part_under_the_same_name(value):
    assert made(value) == Theirs(threshold=0.25)
    assert as_dict(with_options(Config(), {"rule": value}))["rule"] == f"{HERE}:Theirs(threshold=0.25)"


@pytest.mark.parametrize("value", ["ours", Ours, Ours(), functools.partial(Ours), f"{HERE}:Ours"])
def test_a_part_of_ours_is_its_short_name_however_it_is_given(value):
    assert made(value) == Ours()
    assert with_options(Config(), {"rule": value}) == Config(rule=value) == Config()


@pytest.mark.parametrize(
    "value", ["ours(epsilon=0.1", "ours(", "ours)", f"{HERE}:Ours(", "strict(epsilon=0.1)", "outs()"]
)
def test_a_short_name_with_something_else_behind_it_is_refused(value):
    with pytest.raises(ConfigError, match=r"must be one of ours, strict|options of .* cannot be read"):
        made(value)


def test_a_class_that_is_no_dataclass_is_recorded_with_the_parameters_that_it_keeps():
    assert RULES.name_of(Plain(0.5)) == f"{HERE}:Plain(threshold=0.5)"
    assert RULES.name_of(Plain(0.5, 3)) == f"{HERE}:Plain(power=3, threshold=0.5)"
    assert made(f"{HERE}:Plain(power=3, threshold=0.5)").propose() == 0.125


@pytest.mark.parametrize("value", ["cross-entropy", "cross-entropy(weight=0.3)", CrossEntropy(weight=0.3)])
def test_an_option_at_its_default_makes_no_other_name_of_a_part_of_ours(value):
    assert OBJECTIVES.name_of(value) == "cross-entropy"
    assert OBJECTIVES.is_builtin(value)
    assert OBJECTIVES.is_builtin("cross-entropy(weight=1)")
    assert OBJECTIVES.name_of("cross-entropy(wieght=1)").endswith("(wieght=1)")


def test_a_function_as_an_option_is_recorded_without_its_address():
    assert RULES.name_of(functools.partial(Theirs, threshold=function)) == f"{HERE}:Theirs(threshold=function)"


@given(
    threshold=st.floats(allow_nan=False, allow_infinity=False),
    names=st.lists(st.text(st.characters(codec="utf-8"))).map(tuple),
    epsilon=st.floats(0, 1),
)
def test_a_recorded_name_gives_an_equal_part(threshold, names, epsilon):
    config = Config(rule=Theirs(epsilon, threshold, names))  # type: ignore[arg-type]
    again = with_options(Config(), as_dict(config))
    assert RULES.make(again.rule, again) == config.rule
    assert as_dict(again) == as_dict(config)


# Options that a part shares with the verb.


@pytest.mark.parametrize(
    "value",
    [
        Theirs(epsilon=0.1),
        functools.partial(Theirs, epsilon=0.1),
        f"{HERE}:Theirs(epsilon=0.1)",
        Ours(0.1),
        "ours(epsilon=0.1)",
    ],
)
def test_an_option_that_a_part_shares_with_the_verb_is_recorded_once_with_the_verb(value):
    for config in (with_options(Config(), {"rule": value}), Config(rule=value)):
        assert config.epsilon == as_dict(config)["epsilon"] == 0.1
        assert "epsilon" not in as_dict(config)["rule"]
        assert RULES.make(config.rule, config).epsilon == 0.1


def test_a_class_gets_the_options_of_the_verb_and_its_own_defaults_for_the_rest():
    assert made(Theirs, epsilon=0.2) == made(f"{HERE}:Theirs", epsilon=0.2) == Theirs(0.2, 0.5)


def test_a_part_and_an_option_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match=r"verb\.epsilon = 0\.2, but it must be 0\.1, as in the part"):
        with_options(Config(), {"rule": Theirs(epsilon=0.1), "epsilon": 0.2})
    with pytest.raises(
        ConfigError, match=r"verb\.epsilon = 'low', .* float, also where a part has a field of that"
    ):
        Config(rule=Theirs(epsilon="low"))


# Mistakes.


def test_nothing_is_imported_before_a_part_is_made():
    assert Config(rule="no.such.module:Rule").rule == "no.such.module:Rule"
    assert IngestConfig(layout="no.such.module:Layout").layout == "no.such.module:Layout"


@pytest.mark.parametrize("value", [1, 0.5, True, None, ["ours"], {"ours": 1}])
def test_what_is_neither_a_name_nor_a_part_is_refused(value):
    with pytest.raises(ConfigError, match=r"verb\.rule = .*, but it must be of type str\."):
        Config(rule=value)


UNUSABLE = [
    ("outs", "or a part of your own as module:Name. Did you mean 'ours'?"),
    ("no.such:Rule", "the rule 'no.such:Rule' cannot be imported: No module named 'no'."),
    (f"{HERE}:Nothing", f"cannot be imported: module '{HERE}' has no attribute 'Nothing'."),
    (
        f"{HERE}:Plain(thresh=1)",
        "Plain.__init__() got an unexpected keyword argument 'thresh'. Did you mean 'threshold'?",
    ),
    (f"{HERE}:Plain", "made: Plain.__init__() missing 1 required positional argument: 'threshold'."),
    (functools.partial(Plain, -1.0), "Plain(threshold=-1.0)' cannot be made: threshold must not be negative."),
    (functools.partial(Moody, 1), "Moody(mood=1)' cannot be made: KeyError: 'no such mood'."),
    (functools.partial(Moody, 2), "there is no mood 2."),
    (f"{HERE}:Guessing(thresh=1)", "cannot be made: no thresh. Did you mean 'threshold'?"),
    (Alike, f"the rule '{HERE}:Alike' {UNRELATED}"),
    (Alike(), f"the rule '{HERE}:Alike' {UNRELATED}"),
    (f"{HERE}:Alike", f"the rule '{HERE}:Alike' {UNRELATED}"),
    (function, f"the rule '{HERE}:function' {UNRELATED}"),
    (f"{HERE}:INSTANCE(threshold=1)", "takes no options: it is not a class."),
    (Forgetful(1.0), "no attribute weight, so that nothing could record it. Keep the parameter as self.weight."),
]


@pytest.mark.parametrize(("value", "sentence"), UNUSABLE)
def test_a_part_that_cannot_be_used_is_refused_in_one_sentence(value, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence) + "$"):
        made(value)


@pytest.mark.parametrize(
    "options",
    [
        "(threshold=__import__('os').getpid())",
        "(threshold=epsilon)",
        "(threshold={[]: 1})",
        "(threshold=[i for i in (1, 2)])",
        "(threshold=1)(epsilon=2)",
        "(1.0)",
        "(*[1])",
        "(**{'threshold': 1})",
        "(threshold=1, threshold=2)",
        "(threshold=)",
        "(threshold='\n)",
        "(threshold=" + "(" * 5000 + ")" * 5000 + ")",
    ],
)
def test_the_options_of_a_name_are_literals_and_never_code(options, capsys):
    with pytest.raises(ConfigError, match=r"cannot be read\. Write each once as key=value, with a number"):
        made(f"{HERE}:Theirs{options}")
    assert capsys.readouterr().out == ""


@given(st.text(max_size=20))
def test_no_text_raises_anything_but_a_config_error(text):
    for name in (text, f"{HERE}:{text}", f"{HERE}:Theirs({text})"):
        with contextlib.suppress(ConfigError):
            made(name)
