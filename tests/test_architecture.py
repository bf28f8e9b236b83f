"""The import statements keep the design: layers, borders of third-party libraries, and what never appears."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "prism"
MODULES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}

VERBS = ["ingestion", "condensation", "selection", "evaluation"]
LAYERS = [
    ["errors"],
    ["parts"],
    ["config"],
    ["machine"],
    ["artifacts"],
    ["networks"],
    VERBS,
    ["exports", "recipes", "reports", "testing"],
    ["reproduction"],
    ["cli", "__main__"],
]
INTO_THE_HOUSE = "prism"

BORDERS = {
    "av": {
        *("prism.ingestion.container", "prism.ingestion.decode", "prism.ingestion.motion"),
        *("prism.artifacts.encodings.sparse", "prism.exports.videos"),
    },
    "safetensors": {"prism.artifacts", "prism.condensation.recorder", "prism.exports.videos"},
    "cyclopts": {"prism.cli"},
    "distributed": {"prism.machine.executors"},
    "matplotlib": {"prism.reports", "prism.exports.videos"},
    "jinja2": {"prism.reports"},
}
"""Third-party library: the modules, or packages with all their modules, that may import it."""


def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def nodes_at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes apart from what only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if not is_type_checking(child):
            yield child
            yield from nodes_at_run_time(child)


HOMES = re.compile(r"(prism\.[\w.]+):\w+")


def imports(module: str, *, for_types: bool = False, by_name: bool = False) -> set[str]:
    """The full names of all modules that a module imports, at its top or inside a function.

    Args:
        for_types: also those that only a type checker imports.
        by_name: also those that a registry names in a string, as `prism.networks.convnet3d:ConvNet3D`.
    """
    found, tree = set(), tree_of(module)
    if by_name:
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        found |= {match[1] for text in texts if isinstance(text, str) and (match := HOMES.fullmatch(text))}
    for node in ast.walk(tree) if for_types else nodes_at_run_time(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively: write the full name"
            # `from prism import networks` and `from prism.networks import build` both import prism.networks.
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (named & MODULES.keys()) or {str(node.module)}
    return found


def home(module: str) -> str:
    """The room that a module belongs to: `condensation` for `prism.condensation.loop`."""
    return module.split(".")[1] if "." in module else INTO_THE_HOUSE


def layer(part: str) -> int:
    (found,) = [level for level, parts in enumerate(LAYERS) if part in parts]
    return found


INSIDE = sorted(MODULES.keys() - {INTO_THE_HOUSE})


@pytest.mark.parametrize("module", INSIDE)
def test_a_module_has_a_layer_and_imports_only_from_it_or_below(module):
    assert any(home(module) in parts for parts in LAYERS), f"{module} has no layer: give it one in LAYERS"
    for imported in imports(module):
        if imported in MODULES and imported != INTO_THE_HOUSE:
            assert layer(home(imported)) <= layer(home(module)), f"{module} imports {imported}, a layer above it"


@pytest.mark.parametrize("module", [module for module in INSIDE if home(module) in VERBS])
def test_verbs_never_import_each_other(module):
    others = {home(name) for name in imports(module) if name.startswith("prism.")} & set(VERBS)
    assert others <= {home(module)}, f"{module} imports the verb {others - {home(module)}}: meet in a noun on disk"


@pytest.mark.parametrize("module", [module for module in INSIDE if home(module) != "cli"])
def test_nothing_inside_imports_the_public_api(module):
    assert INTO_THE_HOUSE not in imports(module), f"{module} imports the package that is made of it"


def test_imports_form_no_circle_not_even_by_the_names_in_a_registry_or_for_a_type_checker():
    waiting = {m: imports(m, for_types=True, by_name=True) & MODULES.keys() - {m} for m in INSIDE}
    while waiting:
        free = [module for module, needs in waiting.items() if not needs & waiting.keys()]
        assert free, f"a circle among {sorted(waiting)}"
        for module in free:
            del waiting[module]


def test_the_loop_rests_on_at_most_20_modules():
    under, waiting = set[str](), ["prism.condensation.loop"]
    while waiting:
        new = imports(waiting.pop(), by_name=True) & MODULES.keys() - under
        under |= new
        waiting += new
    assert len(under) <= 20, sorted(under)


@pytest.mark.parametrize("module", MODULES)
def test_every_library_stays_within_its_border(module):
    for library in {name.split(".")[0] for name in imports(module)} & BORDERS.keys():
        allowed = BORDERS[library]
        inside = module in allowed or any(module.startswith(f"{package}.") for package in allowed)
        assert inside, f"{module} imports {library}; only {sorted(allowed)} may"


FORBIDDEN_IMPORTS = {"pickle", "dill", "joblib", "marshal", "shelve", "cloudpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "torch.manual_seed", "torch.load", "torch.save", "np.random.seed"}


@pytest.mark.parametrize("module", MODULES)
def test_nothing_reads_code_from_data_or_touches_global_randomness(module):
    assert not {name.split(".")[0] for name in imports(module)} & FORBIDDEN_IMPORTS
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in FORBIDDEN_CALLS, f"{module}, line {node.lineno}"
        if isinstance(node, ast.ImportFrom) and node.module == "torch":
            assert not {alias.name for alias in node.names} & {"manual_seed", "load", "save"}


@pytest.mark.parametrize("module", MODULES)
def test_no_module_is_named_after_nothing(module):
    assert not {"utils", "util", "helpers", "helper", "common", "misc", "manager"} & set(module.split("."))


LIGHT = [
    *("prism", "prism.artifacts", "prism.cli", "prism.config", "prism.errors", "prism.parts", "prism.recipes"),
    *(m for m in MODULES if m.startswith(("prism.cli.", "prism.machine.")) or m.endswith(".options")),
]


@pytest.mark.parametrize("module", LIGHT)
def test_what_help_needs_imports_no_heavy_library_at_its_top(module):
    tree = tree_of(module)
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in top if isinstance(node, ast.ImportFrom)}
    assert not {name.split(".")[0] for name in names} & {"torch", "numpy", "av", "safetensors", "matplotlib"}
