"""Write prism/__init__.pyi, in which the verbs spell out the options that they take.

    python -m tests.stub

In the source an option is said once, as a field of a verb's configuration, and the verb takes `**options`. An
editor completes only what is spelt out, and a type checker refuses only a wrong one of those: hence the stub.
"""

import ast
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import prism
from prism.config import described
from prism.ingestion.options import IngestConfig
from prism.machine import run

STUB = Path(prism.__file__).parent / "__init__.pyi"
WATCHED = "field(default_factory=is_watched)"
HEAD = '"""The names of PRISM, with every option of its verbs; made by `python -m tests.stub`."""\n'


def stub() -> str:
    """The text of the stub, formatted."""
    imports = set[str]()
    verbs: list[str] = []
    for name in prism.__all__:
        home = prism._HOME[name]
        if takes_options(getattr(prism, name)):
            verbs.append(signature(getattr(prism, name), imports))
        else:
            imports.add(f"from {home} import {name} as {name}")
    text = "\n".join([HEAD, *sorted(imports), "__version__: str", *verbs])
    ruff = [sys.executable, "-m", "ruff"]
    for step in (["check", "--fix", "--select", "I", "--quiet"], ["format", "--quiet"]):
        command = [*ruff, *step, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    return text


def takes_options(named: object) -> bool:
    """Whether a name of the package is a verb that takes `**options`."""
    return inspect.isfunction(named) and "options" in inspect.signature(named).parameters


def signature(verb: Callable[..., object], imports: set[str]) -> str:
    """The declaration of a verb; what its annotations need is added to the imports."""
    function = ast.parse(inspect.getsource(verb)).body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    arguments.kwarg = None
    # The command line calls a verb with these; in Python all options are keyword arguments.
    num_own = sum(argument.arg not in ("config", "run") for argument in arguments.args)
    arguments.defaults = arguments.defaults[: len(arguments.defaults) + num_own - len(arguments.args)]
    arguments.args = arguments.args[:num_own]
    for name, (kind, default) in options_of(verb).items():
        arguments.kwonlyargs.append(ast.arg(name, ast.parse(kind, mode="eval").body))
        arguments.kw_defaults.append(ast.parse(default, mode="eval").body)
    function.body, function.decorator_list = [ast.Expr(ast.Constant(...))], []
    homes = {"Any": "from typing import Any", "Literal": "from typing import Literal"}
    for module in (sys.modules[verb.__module__], run):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom):
                homes |= {alias.name: f"from {node.module} import {alias.name}" for alias in node.names}
            elif isinstance(node, ast.ClassDef):
                homes[node.name] = f"from {module.__name__} import {node.name}"
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                homes[node.targets[0].id] = f"from {module.__name__} import {node.targets[0].id}"
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    imports |= {homes[name] for name in used & homes.keys() - set(prism.__all__)}
    return ast.unparse(ast.fix_missing_locations(function))


def options_of(verb: Callable[..., object]) -> dict[str, tuple[str, str]]:
    """Annotation and default of each option that a verb takes, as source."""
    found: dict[str, tuple[str, str]] = {}
    hints = get_type_hints(verb)
    configs = [IngestConfig] if verb is prism.load else get_args(hints.get("config"))
    for config in configs:
        for name, field in described(config).items() if config is not NoneType else ():
            choices = f"Literal[{', '.join(map(repr, field.choices))}]" if field.choices else field.kind.__name__
            found[name] = "Any" if field.parts else choices, repr(field.default)
    if "run" in hints:
        not_taken = run.NOT_TAKEN.get(verb.__name__.removeprefix("write_"), ())
        found |= {name: said for name, said in declared(run.Run).items() if name not in not_taken}
    if verb is prism.load:
        found |= declared(prism.VideoDataset.__init__)
    return {name: said for name, said in found.items() if name not in inspect.signature(verb).parameters}


def declared(home: Any) -> dict[str, tuple[str, str]]:
    """Annotation and default of what a class or a function takes by name, as source."""
    found = {}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(home)))):
        if isinstance(node, ast.AnnAssign) and node.simple and node.value:
            value = ast.unparse(node.value).replace(WATCHED, "...")
            found[ast.unparse(node.target)] = ast.unparse(node.annotation), value
        elif isinstance(node, ast.arguments):
            pairs = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            found |= {
                arg.arg: (ast.unparse(arg.annotation), ast.unparse(value))
                for arg, value in pairs
                if arg.annotation and value
            }
    return found


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
