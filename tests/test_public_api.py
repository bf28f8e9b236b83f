"""`import prism`: few names, each documented, and nothing heavy until it is used."""

import importlib.metadata
import inspect
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from settings import printed

import prism
from prism.condensation.options import CondenseConfig
from prism.errors import ConfigError, OutputError
from prism.ingestion.motion import write_motion
from prism.machine.run import NOT_TAKEN, Run
from tests.stub import STUB, stub


@pytest.mark.parametrize("name", prism.__all__)
def test_every_public_name_can_be_imported_and_has_a_docstring(name):
    value = getattr(prism, name)
    assert name in dir(prism)
    assert inspect.getdoc(value)
    assert not inspect.getdoc(value).startswith(f"{name}(")


def test_a_signal_waits_for_the_import_of_what_a_name_brings(monkeypatch):
    def imported(name):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        done.append(name)
        return SimpleNamespace(condense=name)

    done: list[str] = []
    monkeypatch.setattr(prism.importlib, "import_module", imported)
    with pytest.raises(KeyboardInterrupt):
        _ = prism.condense
    assert done == ["prism.condensation.condense"]


@contextmanager
def with_float64():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


SETTINGS = {
    "float64": with_float64,
    "autocast": partial(torch.autocast, "cpu", dtype=torch.bfloat16),
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "another device": partial(torch.device, "meta"),
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_settings_of_pytorch_in_a_program_change_no_result(make_store, tmp_path, settings):
    def made_in(folder):
        store, small = make_store(), {"width": 2, "device": "cpu"}
        condensed = prism.condense(store, batch_real=2, iterations=2, output=folder / "set", **small)
        scored = prism.evaluate(condensed, store, epochs=1, seeds=1, output=folder / "result.json", **small)
        prism.select(store, method="herding", epochs=1, output=folder / "chosen", **small)
        prism.export(condensed, folder / "tensors", to="tensors")
        prism.report([folder / "result.json"], folder / "page.html")
        prism.load(folder / "set")
        return scored, [(folder / name).read_bytes() for name in ("set", "chosen", "tensors/clips.safetensors")]

    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
    with settings():
        inside, files = made_in(tmp_path / "inside")
    outside, others = made_in(tmp_path / "outside")
    assert ([run.scores for run in inside.runs], files) == ([run.scores for run in outside.runs], others)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda store: prism.evaluate(None, store, CondenseConfig()),
            "evaluate takes its options as keyword arguments, not CondenseConfig(vpc=1,",
        ),
        (lambda store: prism.report("a.json", "x.html"), "a list of result files is wanted, not 'a.json'."),
        (lambda store: prism.lead([1], [2]), "a result, or its file, is wanted, not 1."),
        (lambda store: prism.condense(None), "a clip store, or its folder, is wanted, not None."),
        (lambda store: prism.condense(store, output=5), "the path of an output is wanted, not 5."),
        (lambda store: prism.condense(store, checkpoint_seconds="x"), "checkpoint_seconds = 'x', but it must"),
        (lambda store: prism.evaluate(store, store), "a condensed set, or its file, is wanted, not ClipStore("),
        (lambda store: prism.export(3, "out"), "a condensed set, or its file, is wanted, not 3."),
        (lambda store: prism.ingest("videos", None), "the path of an output is wanted, not None."),
        (
            lambda store: prism.load(store),
            "the path of a set, a store or videos (VideoDataset takes an open one) is wanted, not ClipStore(",
        ),
        (lambda store: prism.reproduce("table1", store), "a list of clip stores is wanted, not ClipStore("),
        (lambda store: prism.reproduce("table1", [store], vpc=5), "a list of numbers of videos per class is"),
        (lambda store: prism.reproduce(3, [store]), "unknown table '3'. See prism reproduce --list."),
        (lambda store: prism.reproduce("table1", [store], seeds="2"), "seeds = '2', but it must be at least 1."),
        (lambda store: prism.reproduce("table1", [store], vcp=5), "unknown key 'reproduce.vcp'."),
        (lambda store: prism.condense(store, vcp=1), "unknown key 'condense.vcp'. Did you mean 'condense.vpc'?"),
        (lambda store: prism.select(store, overwite=True), "key 'select.overwite'. Did you mean 'overwrite'?"),
        (lambda store: prism.condense(store, resume=True), "resume needs the output to go on with. Name it."),
        (lambda store: prism.evaluate("set", store, workers="2"), "workers = '2', but it must be a whole"),
    ],
)
def test_an_argument_of_another_kind_is_refused_in_one_sentence(store, call, sentence):
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        call(store)


TAKING = {
    "motion": lambda at, run: write_motion(at / "out", run=run),
    "ingest": lambda at, run: prism.ingest(at, at / "out", run=run),
    "select": lambda at, run: prism.select(at, run=run),
    "export": lambda at, run: prism.export(at, at / "out", run=run),
    "reproduce": lambda at, run: prism.reproduce("table1", [at], at / "out", run=run),
}
GIVEN = {"output": "other", "resume": True, "overwrite": True, "device": "cpu", "executor": ThreadPoolExecutor(1)}


@pytest.mark.parametrize(("verb", "name"), [(verb, name) for verb in TAKING for name in NOT_TAKEN[verb]])
def test_a_field_of_the_run_that_a_verb_has_no_use_for_is_refused(tmp_path, verb, name):
    sentence = rf"{name} = .*, but {verb} has no use for it\. Leave it out\."
    with pytest.raises(ConfigError, match=sentence):
        TAKING[verb](tmp_path, Run(**{name: GIVEN[name]}))
    assert not list(tmp_path.iterdir())


def test_the_version_is_that_of_the_installed_package_and_brings_no_heavy_library():
    assert prism.__version__ == importlib.metadata.version("prism-condense")
    program = "import prism, sys; prism.__version__; print({'torch', 'numpy', 'av'} & set(sys.modules) or '')"
    assert printed(program) == "\n"


def test_the_stub_spells_out_every_option_of_the_verbs():
    assert STUB.read_text(encoding="utf-8") == stub(), "run: python -m tests.stub"
    (condense,) = re.findall(r"^def condense\((.*?)\) ->", stub(), re.MULTILINE | re.DOTALL)
    taken = re.findall(r"^    (\w+):", condense, re.MULTILINE)
    assert set(taken) >= {field.name for field in fields(CondenseConfig)} | {field.name for field in fields(Run)}


TINY = {"width": 2, "device": "cpu"}
WRITERS = {
    "select": lambda store, output: prism.select(store, output=output, overwrite=True),
    "condense": lambda store, output: prism.condense(store, output=output, iterations=1, overwrite=True, **TINY),
    "condense on an engine": lambda store, output: prism.condense(
        store, output=output, iterations=1, overwrite=True, executor=ThreadPoolExecutor(1), **TINY
    ),
    "evaluate": lambda store, output: prism.evaluate(
        prism.select(store), store, output=output, epochs=1, overwrite=True, **TINY
    ),
    "export": lambda store, output: prism.export(prism.select(store), output, overwrite=True),
    "motion": lambda store, output: write_motion(output, overwrite=True),
}


@pytest.mark.parametrize("output", ["", ".", "/"])
@pytest.mark.parametrize("verb", WRITERS)
def test_an_output_without_a_name_is_refused(store, tmp_path, monkeypatch, verb, output):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match=r"is a folder|no part of|is not"):
        WRITERS[verb](store, output)
    assert list(tmp_path.iterdir()) == []


OVER_INPUT = {
    "condense": lambda path, store: WRITERS["condense"](store, store.path / "frames.u8"),
    "evaluate": lambda path, store: prism.evaluate(path, store, output=path, overwrite=True),
    "export": lambda path, store: prism.export(path, path, to="gif", overwrite=True),
    "report": lambda path, store: prism.report([path], path, overwrite=True),
}


@pytest.mark.parametrize("verb", OVER_INPUT)
def test_no_output_replaces_what_it_is_made_of_even_where_it_may_overwrite(make_store, tmp_path, verb):
    store, made = make_store(), tmp_path / "made"
    path = store.path / "frames.u8" if verb == "condense" else made
    condensed = prism.select(store)
    result = prism.evaluate(condensed, store, epochs=1, seeds=1, **TINY) if verb == "report" else None
    (result or condensed).save(made)
    before = path.read_bytes()
    with pytest.raises(OutputError, match=rf"output '{path}' is what is read\. Choose another path\."):
        OVER_INPUT[verb](made, store)
    assert path.read_bytes() == before
