"""The process that the shell sees, and the supervisor that it watches and is watched by."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING

from tf_collectives.launch.processes import adopt_orphans, kill_descendants, signal_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

# A terminal sends these to all processes of a job, so a rank's children get them too.
TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
PROCESS_SIGNALS = (signal.SIGTERM, signal.SIGABRT, signal.SIGUSR1, signal.SIGUSR2)


def passed_on_signals() -> list[signal.Signals]:
    """Return the signals for the ranks, without those that `nohup` or a shell has switched off."""
    return [
        number
        for number in TERMINAL_SIGNALS + PROCESS_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    ]


def run_guarded(supervise: Callable[[int], int]) -> int:
    """Run `supervise` in a child and return what it returned.

    Its argument is a descriptor that reads as ended when this process is gone. The child has a
    session of its own, so that what is sent to this process's group, like Ctrl-C or the second
    signal of `timeout`, reaches it once and through here.
    """
    # Where it is ignored, as some parents leave it, no process can wait for its children.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signals = passed_on_signals()
    # What arrives before either process is ready for it waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    parent_alive, alive = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(alive)
        os._exit(_run_child(supervise, parent_alive))
    os.close(parent_alive)
    adopt_orphans()

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in signals:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    kill_descendants()
    print(
        f"tfcrun: the supervising process (pid {child}) was ended by signal {signal_name(-code)}; "
        "all ranks were killed",
        file=sys.stderr,
    )
    return 128 - code


def _run_child(supervise: Callable[[int], int], parent_alive: int) -> int:
    os.setsid()
    try:
        return supervise(parent_alive)
    except BaseException:
        traceback.print_exc()
        kill_descendants()
        return 1
