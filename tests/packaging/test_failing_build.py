"""A build that fails ends with the reason, which is the line that people read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import fake_tensorflow

from first_error import FirstError

ROOT = Path(__file__).parents[2]


def last_line_of_build(output: str) -> str:
    """Return the last line that the build printed, which pip marks by the line after it."""
    lines = [line.strip(" │╰─>") for line in output.splitlines()]
    return lines[lines.index("[end of output]") - 1]


def build_with_pip(source: Path, tmp_path: Path, **environment: str) -> str:
    """Build a wheel, which has to fail; return what pip printed."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel"]
    command += ["--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", str(tmp_path)]
    command += ["--config-settings", f"build-dir={tmp_path / 'build'}"]
    command += ["--config-settings", "cmake.define.TFC_BUILD_OPS=OFF"]
    done = subprocess.run(
        [*command, str(source)],
        env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode != 0, done.stdout
    return done.stdout


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what a build reads, without the sources."""
    copy = tmp_path / "source"
    copy.mkdir()
    for name in ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    for name in ("build_backend", "cmake", "include"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("src", "src/cuda", "tf_ops", "python/core", "python/tf_collectives"):
        (copy / name).mkdir(parents=True)
        (copy / name / "empty.cc").touch()
    return copy


def test_unsupported_tensorflow(source: Path, tmp_path: Path) -> None:
    old = fake_tensorflow.install(tmp_path / "site-packages", "2.15.1")
    output = build_with_pip(source, tmp_path, TFC_TF_DIR=str(old))
    assert last_line_of_build(output) == (
        f"tf_collectives: TensorFlow 2.15.1 in {old} is not supported; supported are 2.16 to 2.21. "
        "Install one of them: pip install 'tensorflow>=2.16,<2.22'"
    )


def test_missing_compiler(source: Path, tmp_path: Path) -> None:
    output = build_with_pip(source, tmp_path, CXX="no-such-compiler")
    assert last_line_of_build(output) == (
        "tf_collectives: the C++ compiler 'no-such-compiler' named by CXX was not found."
    )


def test_error_of_cmake(source: Path, tmp_path: Path) -> None:
    with (source / "CMakeLists.txt").open("a", encoding="utf-8") as project:
        project.write('message(FATAL_ERROR "The frobnicator is missing. Install it.")\n')
    output = build_with_pip(source, tmp_path)
    assert last_line_of_build(output) == "tf_collectives: The frobnicator is missing. Install it."


def test_error_of_the_compiler(source: Path, tmp_path: Path) -> None:
    broken = source / "src" / "broken.cc"
    broken.write_text("int broken = ;\n")
    output = build_with_pip(source, tmp_path)
    assert last_line_of_build(output).startswith(f"tf_collectives: {broken}:1:14: error: ")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("-- ok\n[1/2] Building error.cc\n", ""),
        ("x\nCMake Error at a.cmake:7 (message):\n  One\n  two.\n\n\n-- Later\n", "One two."),
        ("CMake Error: The source is missing.\n", "The source is missing."),
        ("a.cc:1:2: fatal error: b.h: No such file or directory\na.cc:3:4: error: c\n",
         "a.cc:1:2: fatal error: b.h: No such file or directory"),
        ("/usr/bin/ld: cannot find -lfoo\n", "/usr/bin/ld: cannot find -lfoo"),
    ],
)  # fmt: skip
def test_first_error_in_output(output: str, expected: str) -> None:
    first = FirstError()
    for line in output.splitlines():
        first.examine(line)
    assert first.text == expected
