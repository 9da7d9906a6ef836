from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.launching import run_ranks, start_ranks

PRINT_VARIABLES = """
    import os
    for name in sorted(os.environ):
        if name.startswith("TFC_"):
            print(name, os.environ[name])
"""


def variables(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines())


def test_each_rank_learns_its_place():
    result = run_ranks(PRINT_VARIABLES, np=3)
    for rank in range(3):
        found = variables(result.stdout[rank])
        expected = {
            "TFC_RANK": str(rank),
            "TFC_SIZE": "3",
            "TFC_LOCAL_RANK": str(rank),
            "TFC_LOCAL_SIZE": "3",
            "TFC_CROSS_RANK": "0",
            "TFC_CROSS_SIZE": "1",
        }
        assert found | expected == found
        job_id = found["TFC_JOB_ID"]
        assert job_id == variables(result.stdout[0])["TFC_JOB_ID"]
        assert len(bytes.fromhex(job_id)) == 16


def test_each_job_has_an_id_of_its_own():
    first, second = (run_ranks(PRINT_VARIABLES, np=1).stdout[0] for _ in range(2))
    assert variables(first)["TFC_JOB_ID"] != variables(second)["TFC_JOB_ID"]


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        (["--fusion-threshold-mb", "64"], "TFC_FUSION_THRESHOLD", str(64 << 20)),
        (["--fusion-threshold-mb=0.5"], "TFC_FUSION_THRESHOLD", str(1 << 19)),
        (["--cache-capacity", "0"], "TFC_CACHE_CAPACITY", "0"),
        (["--start-timeout", "30"], "TFC_START_TIMEOUT_SECONDS", "30.0"),
        (["--stall-check-warning-time-seconds", "5"], "TFC_STALL_WARNING_SECONDS", "5.0"),
        (["--no-stall-check"], "TFC_STALL_WARNING_SECONDS", "0"),
        (["--stall-check-shutdown-time-seconds", "90"], "TFC_TIMEOUT_SECONDS", "90.0"),
        (["--log-level", "DEBUG"], "TFC_LOG_LEVEL", "debug"),
    ],
)
def test_option_sets_its_variable_over_the_environment(options: list[str], name: str, value: str):
    result = run_ranks(PRINT_VARIABLES, options=options, env={name: "1", "TFC_CHUNK_BYTES": "8192"})
    for text in result.stdout:
        assert variables(text)[name] == value
        assert variables(text)["TFC_CHUNK_BYTES"] == "8192"


def test_options_after_the_command_belong_to_the_command():
    result = run_ranks("import sys; print(sys.argv[1:])", args=["-np", "3", "--verbose", "--", "x"])
    assert result.stdout == ["['-np', '3', '--verbose', '--', 'x']\n"] * 2


def test_rank_0_alone_reads_standard_input():
    code = "import sys; print(repr(sys.stdin.read()))"
    with start_ranks(code, np=3, stdin=subprocess.PIPE) as job:
        job.process.stdin.write(b"typed")
        job.process.stdin.close()
        assert job.finish().stdout == ["'typed'\n", "''\n", "''\n"]


def test_closed_standard_descriptors_do_no_harm():
    code = f"""
        import os
        for descriptor in range(3):
            os.close(descriptor)
        command = ["-m", "tf_collectives.launch", "-np", "2", "sh", "-c", "exit 7"]
        os.execv({sys.executable!r}, [{sys.executable!r}, *command])
    """
    done = subprocess.run([sys.executable, "-c", code.replace("\n        ", "\n")], timeout=60)
    assert done.returncode == 7


def test_ranks_inherit_no_descriptor_of_the_launcher():
    code = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    for text in run_ranks(code).stdout:
        # The fourth is the directory that is being listed.
        assert text == "['0', '1', '2', '3']\n"


def test_ranks_have_default_signal_handling():
    code = """
        import signal
        changed = [s for s in signal.valid_signals() if signal.getsignal(s) is signal.SIG_IGN]
        print(changed, signal.pthread_sigmask(signal.SIG_BLOCK, []))
    """
    # Python itself ignores these two.
    python = ["SIGPIPE", "SIGXFSZ"]
    for text in run_ranks(code).stdout:
        assert all(name in text for name in python)
        assert text.count("<Signals") == 2
        assert text.endswith("set()\n")


def test_tensorflow_is_not_imported():
    code = """
        import sys
        from tf_collectives.launch import main
        try:
            main(["--help"])
        finally:
            sys.stderr.write(str("tensorflow" in sys.modules))
    """
    done = subprocess.run(
        [sys.executable, "-c", code.replace("\n        ", "\n")], capture_output=True, timeout=60
    )
    assert done.stderr == b"False"
    assert os.fsencode("usage: tfcrun") in done.stdout
