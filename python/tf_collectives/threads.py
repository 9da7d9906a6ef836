"""Guards the one rule that unnamed eager calls depend on: a single thread makes them."""

from __future__ import annotations

import threading

from tf_collectives.errors import UnnamedCollectiveError

__all__ = ["check", "reset"]

_lock = threading.Lock()
_owner: threading.Thread | None = None
_owner_ident = 0


def check() -> None:
    """Raise if unnamed eager calls already come from another thread that is still alive."""
    if threading.get_ident() != _owner_ident:
        _claim()


def reset() -> None:
    """Let the next thread that makes an unnamed call be the one."""
    global _owner, _owner_ident
    with _lock:
        _owner, _owner_ident = None, 0


def _claim() -> None:
    global _owner, _owner_ident
    current = threading.current_thread()
    with _lock:
        if _owner is not None and _owner is not current and _owner.is_alive():
            raise UnnamedCollectiveError(
                f"thread {current.name!r} called a collective without a name, but thread "
                f"{_owner.name!r} does so too. Unnamed eager calls are matched across ranks by "
                "their order, and two threads have none. Give the collectives of one of the "
                "threads a name (name='...', the same on every rank)."
            )
        _owner, _owner_ident = current, threading.get_ident()
