from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import tf_collectives
from tf_collectives import _core

if TYPE_CHECKING:
    from pathlib import Path


def tfcrun(*arguments: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tf_collectives.launch", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)


def test_help_lists_every_environment_variable():
    done = tfcrun("--help")
    assert done.returncode == 0
    words = " ".join(done.stdout.split())
    variables = _core.environment_variables()
    assert "TFC_FUSION_THRESHOLD" in [variable["name"] for variable in variables]
    for variable in variables:
        default = variable["default"] or "none"
        described = f"{variable['name']} ({variable['type']}, default: {default})"
        assert f"{described} {variable['meaning']}" in words


def test_help_shows_the_runtimes_defaults_in_the_options_units():
    words = " ".join(tfcrun("-h").stdout.split())
    assert "Sets TFC_FUSION_THRESHOLD (default: 128)" in words
    assert "Sets TFC_LOG_LEVEL (default: warning)" in words


def test_version():
    done = tfcrun("--version")
    assert (done.returncode, done.stdout) == (0, f"tfcrun {tf_collectives.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["true"], "the following arguments are required: -np/--num-proc"),
        (["-np", "2"], "there is no command to run. Example: tfcrun -np 2 python train.py"),
        (["-np", "2", "--"], "there is no command to run"),
        (["-np", "0", "true"], "'0' is not a number of processes: give an integer of at least 1"),
        (["-np", "-1", "true"], "'-1' is not a number of processes"),
        (["-np", "two", "true"], "'two' is not a number of processes"),
        (["-np", "2", "--nonsense", "true"], "--nonsense"),
        (["-np", "2", "--grace-period", "-1", "true"], "'-1' is not a time"),
        (["-np", "2", "--grace-period", "nan", "true"], "'nan' is not a time"),
        (["-np", "2", "--fusion-threshold-mb", "big", "true"], "'big' is not a size"),
        (["-np", "2", "--fusion-threshold-mb", "inf", "true"], "'inf' is not a size"),
        (["-np", "2", "--cache-capacity", "1.5", "true"], "'1.5' is not an integer of at least 0"),
        (["-np", "2", "--log-level", "loud", "true"], "one of debug, info, warning, error"),
    ],
)
def test_wrong_options_are_refused_with_the_way_out(arguments: list[str], message: str):
    done = tfcrun(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("tfcrun: ")
    assert message in done.stderr
    assert "usage: tfcrun -np N [options] COMMAND" in done.stderr


@pytest.mark.parametrize(
    ("command", "exit_code", "message"),
    [
        ("nonexistent-command", 127, "command not found: 'nonexistent-command'"),
        ("script.py", 127, "For the file in this directory write './script.py' or 'python script"),
        ("./nowhere/train", 127, "there is no file './nowhere/train'"),
        ("./script.py", 126, "'./script.py' is not executable. Write 'python ./script.py'"),
        ("./directory/", 126, "'./directory/' is a directory"),
        ("./no-interpreter", 127, "the interpreter that './no-interpreter' names"),
        ("./no-program", 126, "rank 0 can't be started from './no-program': Exec format error"),
    ],
)
def test_command_that_cannot_be_run(tmp_path: Path, command: str, exit_code: int, message: str):
    (tmp_path / "directory").mkdir()
    (tmp_path / "script.py").write_text("print('never')")
    for name, text in (("no-interpreter", "#!/nowhere/python\n"), ("no-program", "?")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = tfcrun("-np", "2", command, directory=tmp_path)
    assert done.returncode == exit_code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
