from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from support.launching import run_ranks, start_ranks
from support.terminal import Terminal

from tf_collectives.launch.output import (
    LONGEST_LINE,
    QUEUE_LIMIT,
    READ_BYTES,
    LineJoiner,
    LineSplitter,
    Printer,
    RankStream,
)

if TYPE_CHECKING:
    from pathlib import Path

TFCRUN = [sys.executable, "-m", "tf_collectives.launch"]


def run_raw(code: str, np: int, *options: str) -> subprocess.CompletedProcess[bytes]:
    command = [*TFCRUN, "-np", str(np), *options, sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, check=True, timeout=60)


def test_lines_carry_the_number_of_their_rank_in_both_streams():
    code = "import os, sys; print('out', os.environ['TFC_RANK']); print('error', file=sys.stderr)"
    done = run_raw(code, 2)
    assert sorted(done.stdout.splitlines()) == [b"[0] out 0", b"[1] out 1"]
    assert sorted(done.stderr.splitlines()) == [b"[0] error", b"[1] error"]


def test_prefix_can_be_left_out():
    assert run_raw("print('plain')", 2, "--no-prefix").stdout == b"plain\nplain\n"


def test_output_appears_while_the_rank_runs():
    with start_ranks("print('question'); input(); print('answered')", stdin=subprocess.PIPE) as job:
        job.wait_for("[0] question")
        job.process.stdin.write(b"\n")
        job.process.stdin.flush()
        job.wait_for("[0] answered")


def test_line_that_comes_in_pieces_stays_whole():
    code = """
        import os, sys
        rank = os.environ["TFC_RANK"]
        for piece in range(500):
            os.write(1, f"<{rank}:{piece}".encode())
            os.write(2, f"({rank}:{piece}".encode())
            os.write(1, b">\\n")
            os.write(2, b")\\n")
    """
    result = run_ranks(code, np=3)
    for rank in range(3):
        assert result.stdout[rank].splitlines() == [f"<{rank}:{i}>" for i in range(500)]
        assert result.stderr[rank].splitlines() == [f"({rank}:{i})" for i in range(500)]


def test_much_output_of_all_ranks_at_once_is_complete_and_whole():
    code = """
        import os, sys
        rank = os.environ["TFC_RANK"]
        for number in range(20000):
            sys.stdout.write(f"{rank} {number} {'x' * (number % 200)}\\n")
    """
    result = run_ranks(code, np=4, env={"PYTHONUNBUFFERED": ""})
    for rank in range(4):
        expected = [f"{rank} {number} {'x' * (number % 200)}" for number in range(20000)]
        assert result.stdout[rank].splitlines() == expected


def test_output_without_a_final_newline_is_not_lost():
    done = run_raw("import os; os.write(1, b'no newline')", 2)
    assert done.stdout in (b"[0] no newline\n[1] no newline", b"[1] no newline\n[0] no newline")


def test_bytes_that_are_not_utf8_pass_through():
    done = run_raw(r"import os; os.write(1, bytes(set(range(256)) - {10, 13}) + b'\n')", 1)
    assert done.stdout == b"[0] " + bytes(set(range(256)) - {10, 13}) + b"\n"


def test_progress_bar_of_one_rank_is_not_continued_by_another():
    code = """
        import os, sys
        if os.environ["TFC_RANK"] == "0":
            os.write(1, b"10%\\r20%\\r30%")
        else:
            os.write(1, b"other\\n")
    """
    done = run_raw(textwrap.dedent(code), 2)
    assert done.stdout in (
        b"[0] 10%\r[0] 20%\r\n[1] other\n[0] 30%",
        b"[1] other\n[0] 10%\r[0] 20%\r[0] 30%",
        b"[0] 10%\r[0] 20%\r[0] 30%\n[1] other\n",
    )


def test_writer_ends_when_nobody_reads_the_output():
    code = "while True: print('endless')"
    command = [*TFCRUN, "-np", "2", sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() in (b"[0] endless\n", b"[1] endless\n")
        process.stdout.close()
        assert process.wait(60) == 1
        assert b"BrokenPipeError" in process.stderr.read()


def test_no_more_is_read_from_a_rank_than_the_reader_takes():
    reader, writer = os.pipe()
    rank_end, launcher_end = os.pipe()
    printer = Printer(writer)
    with os.fdopen(rank_end, "rb", buffering=0) as pipe:
        stream = RankStream(None, pipe, printer, b"[0] ", None)
        while stream.is_wanted:
            os.write(launcher_end, b"x" * 4095 + b"\n")
            stream.read()
        assert QUEUE_LIMIT < printer.queued < QUEUE_LIMIT + READ_BYTES
        while not stream.is_wanted:
            printer.write_some()
            os.read(reader, 4096)
    for descriptor in (reader, writer, launcher_end):
        os.close(descriptor)


def test_reader_that_does_not_read_keeps_no_rank_from_being_ended():
    code = "import os; print('full' * 10**6) if os.environ['TFC_RANK'] == '0' else exit(3)"
    command = [*TFCRUN, "-np", "2", "--grace-period", "0.2", sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while b"sending SIGTERM" not in process.stderr.readline():
            pass
        process.stdout.read()
        assert process.wait(60) == 3


def test_terminal_shows_colours_and_unfinished_lines():
    code = "print('answer:', input('question? '))"
    with Terminal([*TFCRUN, "-np", "1", sys.executable, "-c", code]) as terminal:
        terminal.wait_for(b"\x1b[36m[0]\x1b[0m question? ")
        terminal.type(b"yes\n")
        terminal.wait_for(b"answer: yes")
        assert terminal.finish() == 0


def test_terminal_shows_each_rank_on_lines_of_its_own_beside_a_progress_bar():
    code = """
        import os
        if os.environ["TFC_RANK"] == "1":
            print("other")
        else:
            os.write(1, b"50%\\r")
            input()
    """
    with Terminal([*TFCRUN, "-np", "2", sys.executable, "-c", textwrap.dedent(code)]) as terminal:
        terminal.wait_for(b"50%")
        terminal.type(b"\n")
        assert terminal.finish() == 0
    lines = re.split(rb"[\r\n]+", re.sub(rb"\x1b\[\d+m", b"", terminal.screen))
    assert b"[0] 50%" in lines
    assert b"[1] other" in lines


def test_output_dir_holds_a_file_for_each_rank(tmp_path: Path):
    code = """
        import os, sys
        rank = os.environ["TFC_RANK"]
        print("out", rank)
        print("error", rank, file=sys.stderr)
        os.write(1, b"\\xff unfinished")
    """
    directory = tmp_path / "made" / "here"
    result = run_ranks(code, np=2, options=["--output-dir", str(directory)])
    assert sorted(file.name for file in directory.iterdir()) == ["rank.0.log", "rank.1.log"]
    for rank in range(2):
        content = (directory / f"rank.{rank}.log").read_bytes()
        lines = [f"out {rank}".encode(), f"error {rank}".encode(), b"\xff unfinished"]
        assert sorted(content.splitlines()) == sorted(lines)
        assert result.stdout[rank].startswith(f"out {rank}\n")


def test_numbers_of_log_files_sort_as_text(tmp_path: Path):
    run_ranks("print('hello')", np=11, options=["--output-filename", str(tmp_path)])
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [f"rank.{rank:02}.log" for rank in range(11)]


def test_log_files_go_on_when_nobody_reads_the_output(tmp_path: Path):
    code = "import sys; print('first'); sys.stdin.read(); print('second ' * 10**5); print('third')"
    options = ["-np", "1", "--output-dir", str(tmp_path)]
    with subprocess.Popen(
        [*TFCRUN, *options, sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        process.stdin.close()
        assert process.wait(60) == 0
    assert (tmp_path / "rank.0.log").read_text().splitlines()[::2] == ["first", "third"]


def test_output_dir_that_cannot_be_made_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    options = ["--output-dir", str(tmp_path / "file")]
    result = run_ranks("print('never')", options=options, expect=2)
    assert f"can't write the output of the ranks to '{tmp_path / 'file'}'" in result.launcher
    assert result.stdout == ["", ""]


@pytest.mark.parametrize(
    ("pieces", "lines", "rest"),
    [
        ([b"one\ntwo\n"], [b"one\n", b"two\n"], b""),
        ([b"o", b"ne", b"\n", b"t"], [b"one\n"], b"t"),
        ([b"\n\n"], [b"\n", b"\n"], b""),
        ([b"10%\r20%"], [b"10%\r"], b"20%"),
        ([b"10%\r", b"20%\r"], [b"10%\r"], b"20%\r"),
        ([b"dos\r\n"], [b"dos\r\n"], b""),
        ([b"dos\r", b"\n"], [b"dos\r\n"], b""),
        ([b"form\ffeed\x1c\x85\n"], [b"form\ffeed\x1c\x85\n"], b""),
    ],
)
def test_splitting_into_lines(pieces: list[bytes], lines: list[bytes], rest: bytes):
    splitter = LineSplitter()
    assert [line for piece in pieces for line in splitter.feed(piece)] == lines
    assert splitter.take_rest() == rest


def test_endless_line_is_passed_on_in_pieces():
    splitter = LineSplitter()
    piece = b"x" * 65536
    fed = 0
    while not (lines := splitter.feed(piece)):
        fed += len(piece)
    assert [len(line) for line in lines] == [fed + len(piece)]
    assert LONGEST_LINE < len(lines[0]) <= LONGEST_LINE + len(piece)


def test_joining_lines_of_several_sources():
    joiner = LineJoiner()
    joined = [
        joiner.join("a", b"[a] ", b"whole\n"),
        joiner.join("b", b"[b] ", b"piece, "),
        joiner.join("b", b"[b] ", b"and its end\n"),
        joiner.join("a", b"[a] ", b"piece"),
        joiner.join("b", b"[b] ", b"breaks it off\n"),
        joiner.join("a", b"[a] ", b"50%\r"),
        joiner.join("a", b"[a] ", b"60%\r"),
        joiner.join("b", b"[b] ", b"end\n"),
    ]
    assert b"".join(joined) == (
        b"[a] whole\n[b] piece, and its end\n[a] piece\n[b] breaks it off\n"
        b"[a] 50%\r[a] 60%\r\n[b] end\n"
    )
