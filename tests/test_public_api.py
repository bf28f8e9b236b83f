"""`import prism`: few names, each documented, and nothing heavy until it is used."""

import importlib.metadata
import inspect
import re
import subprocess
import sys
import typing
from dataclasses import fields

import pytest

import prism
from prism.condensation.options import CondenseConfig
from prism.errors import ConfigError, OutputError
from prism.machine.run import Run
from tests.stub import STUB, stub


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_public_names_are_sorted_and_different():
    assert prism.__all__ == sorted(set(prism.__all__))
    assert dir(prism) == prism.__all__


@pytest.mark.parametrize("name", prism.__all__)
def test_every_public_name_can_be_imported_and_has_a_docstring(name):
    value = getattr(prism, name)
    assert inspect.getdoc(value)
    assert not inspect.getdoc(value).startswith(f"{name}(")


@pytest.mark.parametrize("name", prism.__all__)
def test_every_public_method_has_a_docstring(name):
    value = getattr(prism, name)
    if inspect.isclass(value):
        for method, function in vars(value).items():
            if not method.startswith("_") and (inspect.isroutine(function) or isinstance(function, property)):
                assert inspect.getdoc(getattr(value, method)), f"{name}.{method}"


def test_a_misspelt_option_of_a_verb_names_the_nearest(store):
    with pytest.raises(prism.PrismError, match=r"unknown key 'condense.vcp'. Did you mean 'condense.vpc'\?"):
        prism.condense(store, vcp=1)


def test_a_misspelt_field_of_the_run_names_the_nearest(store):
    with pytest.raises(prism.PrismError, match=r"unknown key 'select.overwite'. Did you mean 'overwrite'\?"):
        prism.select(store, overwite=True)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda store: prism.condense(store, 5),
            "config = 5, but it must be a CondenseConfig. Give options as",
        ),
        (
            lambda store: prism.evaluate(None, store, CondenseConfig()),
            "config = CondenseConfig(vpc=1, ..., but it must be an EvaluateConfig.",
        ),
        (lambda store: prism.ingest("v", "s", None, 5), "run = 5, but it must be a Run."),
        (
            lambda store: prism.rank(["s"], store, candidates=[]),
            "the candidates are [], but they must be a mapping",
        ),
        (lambda store: prism.rank("set", store), "rank takes a list of sets: ['set']."),
        (lambda store: prism.report("prism.json", "x.html"), "report takes a list of files: ['prism.json']."),
    ],
)
def test_an_argument_of_another_kind_is_refused_in_one_sentence(store, call, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        call(store)


def test_the_version_is_that_of_the_installed_package_and_brings_no_heavy_library():
    assert prism.__version__ == importlib.metadata.version("prism-condense")
    program = "import prism, sys; prism.__version__; print({'torch', 'numpy', 'av'} & set(sys.modules) or '')"
    assert run(program) == ""


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'distil'"):
        prism.distil  # noqa: B018


def test_importing_prism_imports_neither_torch_nor_numpy():
    assert run("import prism, sys; print({'torch', 'numpy', 'av'} & set(sys.modules) or '')") in ("", "set()")


VERBS = {
    "condense": "prism.condensation.condense",
    "ingest": "prism.ingestion.build",
    "report": "prism.reports.page",
}


def test_a_verb_stays_callable_after_its_module_was_imported():
    for_each = [
        f"import {module}; from prism import {verb}; print(callable(prism.{verb}), callable({verb}))"
        for verb, module in VERBS.items()
    ]
    assert run("\n".join(["import prism", *for_each])).split() == ["True"] * 2 * len(VERBS)


@pytest.mark.parametrize("verb", ["condense", "evaluate", "select", "ingest"])
def test_the_signature_of_every_verb_can_be_resolved(verb):
    assert typing.get_type_hints(getattr(prism, verb))


def test_the_three_lines_of_the_api_go_from_a_store_to_a_number(store, tmp_path):
    condensed = prism.condense(
        store, vpc=1, iterations=2, width=2, batch_real=2, output=tmp_path / "set", device="cpu"
    )
    result = prism.evaluate(condensed, store, epochs=1, width=2, seeds=1, device="cpu")
    assert result.summary()[2] == 1
    video, label = prism.load(tmp_path / "set")[0]
    assert (tuple(video.shape), label) == ((3, 8, 48, 48), 0)


def test_the_stub_spells_out_every_option_of_the_verbs():
    assert STUB.read_text(encoding="utf-8") == stub(), "run: python -m tests.stub"
    (condense,) = re.findall(r"^def condense\((.*?)\) ->", stub(), re.MULTILINE | re.DOTALL)
    taken = re.findall(r"^    (\w+):", condense, re.MULTILINE)
    assert set(taken) >= {field.name for field in fields(CondenseConfig)} | {field.name for field in fields(Run)}


@pytest.mark.parametrize("verb", ["evaluate", "retrieve", "rank", "export", "report"])
def test_no_output_replaces_what_it_is_made_of_even_where_it_may_overwrite(store, tmp_path, verb):
    path = tmp_path / "made"
    made = prism.select(store)
    made.save(path)
    calls = {
        "evaluate": lambda: prism.evaluate(path, store, output=path, overwrite=True),
        "retrieve": lambda: prism.retrieve(path, store, output=path, overwrite=True),
        "rank": lambda: prism.rank([path], store, output=path, overwrite=True),
        "export": lambda: prism.export(path, path, to="gif", overwrite=True),
        "report": lambda: prism.report([path], path, overwrite=True),
    }
    if verb == "report":
        prism.evaluate(made, store, width=2, epochs=1, seeds=1, output=path, overwrite=True)
    before = path.read_bytes()
    with pytest.raises(OutputError, match=rf"output '{path}' is what is read\. Choose another path\."):
        calls[verb]()
    assert path.read_bytes() == before
