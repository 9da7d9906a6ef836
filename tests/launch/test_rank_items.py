from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture
def run_pytest(tmp_path: Path):
    """Write a module of tests and a conftest.py like ours, and run pytest on them."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -ra\n")
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())

    def run(module: str, *arguments: str) -> tuple[dict[str, str], str]:
        header = "import os, signal, pytest\nrank = int(os.environ['TFC_RANK'])\n"
        (tmp_path / "test_it.py").write_text(header + textwrap.dedent(module))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(TESTS)},
            capture_output=True,
            text=True,
            timeout=200,
        )
        outcomes = re.findall(r"^test_it\.py::(\S+) ([A-Z]+)", done.stdout, re.MULTILINE)
        return dict(outcomes), done.stdout

    return run


def test_each_function_is_reported_for_each_size(run_pytest):
    outcomes, _ = run_pytest("""
        import tf_collectives
        RANKS = (1, 2)

        def test_joined():
            assert (tf_collectives.rank(), tf_collectives.size()) == (
                rank, int(os.environ["TFC_SIZE"]))

        @pytest.mark.parametrize("number", [1, 2])
        def test_parameters(number):
            assert number
    """)
    assert outcomes == {
        "test_joined[np1]": "PASSED",
        "test_parameters[np1]": "PASSED",
        "test_joined[np2]": "PASSED",
        "test_parameters[np2]": "PASSED",
    }


def test_failure_on_one_rank_is_reported_with_its_output_and_ends_nothing(run_pytest):
    outcomes, output = run_pytest("""
        RANKS = (3,)

        @pytest.mark.parametrize("number", [1, 2])
        def test_fails(number):
            print("said", rank)
            assert number == 1 or rank == 1

        def test_after():
            pass
    """)
    assert outcomes == {"test_fails[np3]": "FAILED", "test_after[np3]": "PASSED"}
    assert "test_it.py::test_fails[2], 3 ranks\n" in output
    assert "--- passed on rank 1 ---" in output
    assert "--- failed on rank 0 ---" in output
    assert "assert (2 == 1 or 2 == 1)" in output
    assert "said 2" in output
    assert "test_fails[1]" not in output


def test_hang_and_death_fail_their_test_and_the_rest_is_run(run_pytest):
    outcomes, output = run_pytest("""
        RANKS = (2,)

        @pytest.mark.deadline(1)
        def test_hangs():
            if rank == 1:
                signal.pause()

        def test_between():
            pass

        def test_dies():
            if rank == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def test_last():
            pass
    """)
    assert outcomes == {
        "test_hangs[np2]": "FAILED",
        "test_between[np2]": "PASSED",
        "test_dies[np2]": "FAILED",
        "test_last[np2]": "PASSED",
    }
    assert "Timeout (0:00:01)!" in output
    assert re.search(r'test_it.py", line \d+ in test_hangs', output)
    assert re.search(r"tfcrun: rank 0 \(pid \d+\) was ended by signal SIGKILL", output)


def test_failure_on_one_rank_frees_those_that_wait_for_it(run_pytest):
    outcomes, output = run_pytest("""
        import tensorflow as tf
        import tf_collectives as hvd
        RANKS = (2,)

        def test_fails_before_the_collective():
            assert rank == 1
            hvd.allreduce(tf.constant(1.0), op=hvd.Sum)

        def test_next():
            assert hvd.allreduce(tf.constant(rank + 1), op=hvd.Sum) == 3
    """)
    assert outcomes == {
        "test_fails_before_the_collective[np2]": "FAILED",
        "test_next[np2]": "PASSED",
    }
    assert "UnavailableError" in output


def test_skips_are_skips_only_when_all_ranks_agree(run_pytest):
    outcomes, output = run_pytest("""
        RANKS = (2,)

        def test_skipped():
            pytest.skip("for a reason")

        def test_skipped_by_one():
            if rank == 1:
                pytest.skip("for a reason")
    """)
    assert outcomes == {"test_skipped[np2]": "SKIPPED", "test_skipped_by_one[np2]": "FAILED"}
    assert "for a reason" in output


def test_selection_reaches_the_ranks(run_pytest):
    module = """
        RANKS = (1, 2)

        def test_one():
            pass

        def test_two():
            assert False, "was not selected"
    """
    outcomes, _ = run_pytest(module, "test_it.py::test_one")
    assert outcomes == {"test_one[np1]": "PASSED", "test_one[np2]": "PASSED"}
    outcomes, _ = run_pytest(module, "-k", "one and np2")
    assert outcomes == {"test_one[np2]": "PASSED"}


def test_module_that_cannot_be_imported_fails_with_the_reason(run_pytest):
    outcomes, output = run_pytest("""
        import no_such_module
        RANKS = (2,)

        def test_it():
            pass
    """)
    assert outcomes == {"test_it[np2]": "FAILED"}
    assert "No module named 'no_such_module'" in output


def test_different_tests_on_the_ranks_are_refused(run_pytest):
    outcomes, output = run_pytest("""
        RANKS = (2,)

        @pytest.mark.parametrize("number", range(rank + 1))
        def test_it(number):
            pass
    """)
    assert outcomes == {"test_it[np2]": "FAILED"}
    assert "the ranks have collected different tests" in output


def test_crash_after_the_last_test_is_reported(run_pytest):
    outcomes, output = run_pytest("""
        import atexit
        RANKS = (2,)
        atexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV) if rank == 1 else None)

        def test_it():
            pass
    """)
    assert outcomes == {"test_it[np2]": "FAILED"}
    assert "was ended by signal SIGSEGV" in output
