"""The size of the house, as `wc` counts it: `make check` prints it, and fails where a budget is exceeded.

Whoever needs more room takes something away. A budget rises only with a reason in the log.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def lines(*paths: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths)


def words(*paths: Path) -> int:
    return sum(len(path.read_bytes().split()) for path in paths)


BUDGETS = {
    "lines of prism/": (lines(*(ROOT / "prism").rglob("*.py")), 13_220),
    "lines of tests/": (lines(*(ROOT / "tests").rglob("*.py")), 15_500),
    "words of docs/*.md and README.md": (words(*(ROOT / "docs").glob("*.md"), ROOT / "README.md"), 22_000),
    "lines of LOG.md": (lines(ROOT / "LOG.md"), 300),
}

for what, (size, budget) in BUDGETS.items():
    print(f"{size:7,} {what} (budget {budget:,}){'' if size <= budget else ': TOO MANY'}")
sys.exit(any(size > budget for size, budget in BUDGETS.values()))
