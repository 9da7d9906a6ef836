"""`tfcrun` starts a program on several processes and stays until the last of them has ended.

Two processes do this. The one that the shell started only passes signals on and waits. Its child,
the supervisor, starts the ranks, prints their output and ends them. When one of the two is killed,
the other ends everything that they started, so nothing is left behind either way.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from tf_collectives.launch.guard import run_guarded
from tf_collectives.launch.options import parse
from tf_collectives.launch.processes import CommandError, check_command
from tf_collectives.launch.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of `tfcrun` and return its exit code."""
    _open_standard_descriptors()
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        check_command(options.command[0])
    except CommandError as error:
        print(f"tfcrun: {error}", file=sys.stderr)
        return error.exit_code
    return run_guarded(lambda parent_alive: Supervisor(options, parent_alive).run())


def _open_standard_descriptors() -> None:
    """Keep our pipes from becoming descriptor 0, 1 or 2 where the caller closed one of these."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
