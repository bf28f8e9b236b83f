"""What a release is made of: one version, the Pythons that it names, and a wheel with all that PRISM reads."""

import os
import re
import tomllib
import zipfile
from pathlib import Path

import hatchling.build
import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize(
    ("file", "pattern"), [("CITATION.cff", r"^version: (\S+)$"), ("CHANGELOG.md", r"^## (\d\S+)")]
)
def test_the_version_of_the_project_stands_wherever_one_stands(file, pattern):
    said = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    assert said
    assert said[1] == PROJECT["version"]


def test_the_classifiers_name_every_python_from_3_11_to_3_13():
    named = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name]
    assert named == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_wheel_is_for_every_machine_and_holds_every_file_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    name = hatchling.build.build_wheel(os.fspath(tmp_path))
    assert name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(tmp_path / name) as wheel:
        held = {file for file in wheel.namelist() if ".dist-info/" not in file}
    files = {path.relative_to(ROOT) for path in (ROOT / "prism").rglob("*") if path.is_file()}
    assert held == {path.as_posix() for path in files if "__pycache__" not in path.parts}
    assert {"prism/py.typed", "prism/recipes/demo.toml", "prism/reports/page.html.j2"} <= held
