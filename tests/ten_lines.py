"""The first lines of Python in the README, run as they stand but fast: few videos, small networks, two steps.

    python -I tests/ten_lines.py README.md

runs them in the working folder with the PRISM that is installed; `make dist` does so in an environment of its own.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import prism

FAST: dict[str, dict[str, Any]] = {
    "write_motion": {"train_per_class": 3, "test_per_class": 1, "num_frames": 40, "progress": False},
    "condense": {"iterations": 2, "width": 4, "batch_real": 2, "device": "cpu"},
    "evaluate": {"epochs": 1, "width": 4, "device": "cpu", "seeds": 1},
}
"""The options that win over those of the lines."""


def hurried(verb: str) -> Callable[..., Any]:
    """A verb of PRISM that takes its fast options, whatever else it is given."""
    function = getattr(prism, verb)
    return lambda *given, **named: function(*given, **{**named, **FAST[verb]})


def run_ten_lines(readme: Path, replace: Callable[[object, str, object], None] = setattr) -> None:
    """Run the first Python block of a README in the working folder.

    Args:
        replace: gives `prism` its hurried verbs.
    """
    found = re.search(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"{readme} has no lines of Python"
    for verb in FAST:
        replace(prism, verb, hurried(verb))
    exec(compile(found[1], readme.name, "exec"), {})


if __name__ == "__main__":
    run_ten_lines(Path(sys.argv[1]))
    print(f"The lines of {sys.argv[1]} run with {Path(prism.__file__).parent}.")
