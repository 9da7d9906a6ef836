"""Checks that the installed TensorFlow is the one that this build was made for.

An op library works with the TensorFlow minor version it was compiled for. With another one it may
load all the same and then call the wrong virtual functions, so the check comes first. It reads
package metadata only: the launcher must not wait for TensorFlow to be imported.
"""

from __future__ import annotations

import importlib.metadata
import json
import re

try:
    from tf_collectives._build_info import TF_MINOR, VERSION
except ModuleNotFoundError as error:
    raise ImportError(
        f"tf_collectives in {__file__.rpartition('/')[0]} is not built. Install it with "
        "'pip install .' in the source directory (or 'pip install -e .' to work on it)."
    ) from error

__all__ = ["VERSION", "check", "check_version"]

DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow-rocm", "tf-nightly")


def check() -> None:
    """Raise ImportError if no TensorFlow or one of another minor version is installed."""
    found = _installed()
    if found is None:
        raise ImportError(
            f"tf_collectives {VERSION} needs TensorFlow {TF_MINOR}, and no TensorFlow is "
            f"installed. Install it: pip install 'tensorflow=={TF_MINOR}.*'"
        )
    check_version(*found)


def check_version(version: str, distribution: str = "tensorflow") -> None:
    """Raise ImportError if this TensorFlow version is not of the minor that we were built for."""
    match = re.match(r"\d+\.\d+", version)
    if match is not None and match[0] == TF_MINOR:
        return
    raise ImportError(
        f"tf_collectives {VERSION} was built for TensorFlow {TF_MINOR}, but {distribution} "
        f"{version} is installed, and an op library works with the minor version that it was "
        "built for and no other. Build it for the installed one:\n"
        f"  {_rebuild_command()}\n"
        f"or install the one that it was built for:\n"
        f"  pip install '{distribution}=={TF_MINOR}.*'"
    )


def _installed() -> tuple[str, str] | None:
    """Return version and distribution of the installed TensorFlow, or None."""
    for name in DISTRIBUTIONS:
        version = _version(name)
        if version is not None:
            return version, name
    # Vendors ship TensorFlow under names of their own. Finding those takes a scan of all packages.
    for name in importlib.metadata.packages_distributions().get("tensorflow", []):
        version = _version(name)
        if version is not None:
            return version, name
    return None


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _rebuild_command() -> str:
    # pip must not take the wheel that it built earlier for the other TensorFlow from its cache.
    return f"pip install --force-reinstall --no-deps --no-cache-dir {_source()}"


def _source() -> str:
    """Return what to give to pip to build the package again, from pip's record of its origin."""
    try:
        record = importlib.metadata.distribution("tf_collectives").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        record = None
    origin = json.loads(record or "{}")
    url = origin.get("url", "")
    if "vcs_info" in origin:
        return f"{origin['vcs_info']['vcs']}+{url}"
    if "dir_info" in origin:
        directory = url.removeprefix("file://")
        return f"-e {directory}" if origin["dir_info"].get("editable") else directory
    return "SOURCE_DIRECTORY_OF_TF_COLLECTIVES"
