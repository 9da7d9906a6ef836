"""The command line of `tfcrun`, and what it puts into the environment of the ranks."""

from __future__ import annotations

import argparse
import secrets
import textwrap
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tf_collectives import __version__, _core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MEBIBYTE = 1024 * 1024

DESCRIPTION = """\
Start COMMAND on N processes, its ranks, and wait for all of them.

Each line of output is printed with the number of its rank. Rank 0 reads tfcrun's standard input,
the others read none. Signals are passed on to all ranks. A second Ctrl-C kills them at once.

When a rank fails, the others have the grace period to raise their own errors and to end; then they
get SIGTERM, and 5 seconds later SIGKILL. Every process that descends from a rank ends with the job.
"""

EXIT_CODES = """\
exit code:
  0 when all ranks succeeded; otherwise that of the rank that failed first, or 128 and the number of
  the signal that ended it. 2: wrong options, 126: COMMAND can't be executed, 127: not found.
"""


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    size: int
    command: list[str]
    output_dir: Path | None
    prefix: bool
    grace_period: float
    verbose: bool
    settings: dict[str, str]

    def rank_variables(self) -> list[dict[str, str]]:
        """Return the TFC_ variables of each rank, with a new job id."""
        job_id = secrets.token_hex(16)
        return [
            self.settings
            | {
                "TFC_RANK": str(rank),
                "TFC_SIZE": str(self.size),
                "TFC_LOCAL_RANK": str(rank),
                "TFC_LOCAL_SIZE": str(self.size),
                "TFC_CROSS_RANK": "0",
                "TFC_CROSS_SIZE": "1",
                "TFC_JOB_ID": job_id,
            }
            for rank in range(self.size)
        ]


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line; a mistake in it ends the program with exit code 2."""
    variables = {variable["name"]: variable for variable in _core.environment_variables()}
    parser = _Parser(
        prog="tfcrun",
        usage="tfcrun -np N [options] COMMAND [ARGUMENT ...]",
        description=DESCRIPTION,
        epilog=f"{EXIT_CODES}\n{_describe(list(variables.values()))}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-v", "--version", action="version", version=f"tfcrun {__version__}")
    parser.add_argument(
        "-np", "--num-proc", type=_positive, required=True, metavar="N", help="number of processes"
    )
    parser.add_argument(
        "--output-dir",
        "--output-filename",
        type=Path,
        metavar="DIR",
        help="also write the output of each rank, without prefixes, to DIR/rank.<number>.log",
    )
    parser.add_argument(
        "--no-prefix",
        dest="prefix",
        action="store_false",
        help="print lines without the number of their rank",
    )
    parser.add_argument(
        "--grace-period",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="seconds that the other ranks have to end when one has failed (default: %(default)g)",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="also print when ranks start and how each one ends"
    )
    _add_settings(parser, variables)
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="COMMAND", help=argparse.SUPPRESS
    )

    parsed = parser.parse_args(arguments)
    command = parsed.command[1:] if parsed.command[:1] == ["--"] else parsed.command
    if not command:
        parser.error("there is no command to run. Example: tfcrun -np 2 python train.py")
    return Options(
        size=parsed.num_proc,
        command=command,
        output_dir=parsed.output_dir,
        prefix=parsed.prefix,
        grace_period=parsed.grace_period,
        verbose=parsed.verbose,
        settings=dict(parsed.settings),
    )


def _add_settings(parser: argparse.ArgumentParser, variables: dict[str, dict[str, str]]) -> None:
    group = parser.add_argument_group(
        "settings of the runtime", "Each sets an environment variable for the ranks."
    )

    def add(
        option: str, variable: str, convert: Callable[[str], str], metavar: str, unit: float = 1
    ) -> None:
        default = variables[variable]["default"]
        meaning = variables[variable]["meaning"].replace("%", "%%")
        shown = f"{float(default) / unit:g}" if unit != 1 else default
        group.add_argument(
            option,
            dest="settings",
            action="append",
            default=[],
            type=lambda text: (variable, convert(text)),
            metavar=metavar,
            help=f"{meaning} Sets {variable} (default: {shown}).",
        )

    add("--fusion-threshold-mb", "TFC_FUSION_THRESHOLD", _mebibytes, "MB", unit=MEBIBYTE)
    add("--cache-capacity", "TFC_CACHE_CAPACITY", _count, "N")
    add("--start-timeout", "TFC_START_TIMEOUT_SECONDS", _seconds_text, "S")
    add("--stall-check-warning-time-seconds", "TFC_STALL_WARNING_SECONDS", _seconds_text, "S")
    group.add_argument(
        "--no-stall-check",
        dest="settings",
        action="append_const",
        const=("TFC_STALL_WARNING_SECONDS", "0"),
        help="Never report a stall. Sets TFC_STALL_WARNING_SECONDS to 0.",
    )
    add("--stall-check-shutdown-time-seconds", "TFC_TIMEOUT_SECONDS", _seconds_text, "S")
    levels = variables["TFC_LOG_LEVEL"]["type"]
    add("--log-level", "TFC_LOG_LEVEL", _one_of(levels.split("|")), levels.upper())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        usage = f"usage: {self.usage}\n'tfcrun --help' describes everything."
        self.exit(2, f"tfcrun: {message}\n{usage}\n")


def _describe(variables: list[dict[str, str]]) -> str:
    lines = ["environment variables:", "  The ranks inherit what is set; options override it."]
    for group, members in groupby(variables, key=lambda variable: variable["group"]):
        lines += ["", f"  {group}"]
        for variable in members:
            default = variable["default"] or "none"
            lines.append(f"    {variable['name']} ({variable['type']}, default: {default})")
            lines.append(textwrap.indent(textwrap.fill(variable["meaning"], 88), " " * 8))
    return "\n".join(lines)


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if number < 1:
        message = f"'{text}' is not a number of processes: give an integer of at least 1"
        raise argparse.ArgumentTypeError(message)
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        message = f"'{text}' is not a time: give a number of seconds, not negative"
        raise argparse.ArgumentTypeError(message)
    return seconds


def _seconds_text(text: str) -> str:
    return str(_seconds(text))


def _count(text: str) -> str:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer of at least 0")
    return text


def _mebibytes(text: str) -> str:
    try:
        count = int(float(text) * MEBIBYTE)
    except (ValueError, OverflowError):
        count = -1
    if count < 0:
        message = f"'{text}' is not a size: give a number of MiB, not negative"
        raise argparse.ArgumentTypeError(message)
    return str(count)


def _one_of(words: Sequence[str]) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text.lower() not in words:
            raise argparse.ArgumentTypeError(f"'{text}' is not one of {', '.join(words)}")
        return text.lower()

    return convert
