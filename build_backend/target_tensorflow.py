"""Finds the TensorFlow that this package is built for.

An op library works with the TensorFlow minor version whose headers it was compiled with and with no
other, so it has to be compiled against the one it will be loaded into: the TensorFlow of the
environment that the package is installed into.

As a program it prints ``version;directory``, for a CMake build without pip.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import site
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow-rocm", "tf-nightly")
OLDEST = (2, 16)
NEWEST = (2, 21)
SUPPORTED = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
SPECIFIER = f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"


class BuildError(Exception):
    """The package can't be built here; the text says why and what to do."""


@dataclass(frozen=True)
class TensorFlow:
    """An installed TensorFlow."""

    distribution: str
    version: str
    directory: Path

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor version as numbers."""
        match = re.match(r"(\d+)\.(\d+)", self.version)
        if match is None:
            raise BuildError(
                f"{self.distribution} in {self.directory.parent} has the version "
                f"{self.version!r}, which is none. Reinstall it."
            )
        return int(match[1]), int(match[2])

    @property
    def minor(self) -> str:
        """Major and minor version as text, such as ``2.21``."""
        return "{}.{}".format(*self.release)


def find() -> TensorFlow | None:
    """Return the TensorFlow to build for, or None where there is none."""
    named = os.environ.get("TFC_TF_DIR")
    if named:
        found = _in_directory(Path(named).resolve().parent)
        if found is None:
            raise BuildError(
                f"TFC_TF_DIR is {named}, and no TensorFlow is installed there. Set it to the "
                "directory of the tensorflow package (.../site-packages/tensorflow) or unset it."
            )
        return found
    for directory in search_path():
        found = _in_directory(directory)
        if found is not None:
            return found
    return None


def require() -> TensorFlow:
    """Return the TensorFlow to build for; raise BuildError if there is none or it doesn't fit."""
    found = find()
    if found is None:
        raise BuildError(
            f"no TensorFlow found in {sysconfig.get_paths()['purelib']}. Install one of the "
            f"versions {SUPPORTED} first: pip install 'tensorflow{SPECIFIER}'"
        )
    check(found)
    return found


def check(tensorflow: TensorFlow) -> None:
    """Raise BuildError if the package can't be built for this TensorFlow."""
    if not OLDEST <= tensorflow.release <= NEWEST:
        raise BuildError(
            f"TensorFlow {tensorflow.version} in {tensorflow.directory} is not supported; "
            f"supported are {SUPPORTED}. Install one of them: pip install 'tensorflow{SPECIFIER}'"
        )
    for needed in ("include/tensorflow/core/framework/op_kernel.h", "libtensorflow_framework.so.2"):
        if not (tensorflow.directory / needed).is_file():
            exact = f"{tensorflow.distribution}=={tensorflow.version}"
            raise BuildError(
                f"TensorFlow {tensorflow.version} lacks {tensorflow.directory / needed}, which its "
                f"wheel contains. Install it again: pip install --force-reinstall --no-deps {exact}"
            )


def requirement() -> str:
    """Return what to install into the build environment where no TensorFlow is found.

    The smaller wheel without CUDA has the same headers, but there is one only for x86-64.
    """
    name = "tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"
    return f"{name}{SPECIFIER}"


def search_path() -> list[Path]:
    """Return the directories that may hold TensorFlow, those of the target environment first.

    pip builds in an isolated environment, which hides the target's packages from sys.path; but the
    interpreter is the target's own, and so are the paths that sysconfig names.
    """
    paths = sysconfig.get_paths()
    directories = [paths["purelib"], paths["platlib"]]
    if _sees_packages_outside_of_itself():
        directories.append(site.getusersitepackages())
        base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
        directories.append(sysconfig.get_path("purelib", vars=base))
    directories += [entry for entry in sys.path if entry]
    return [Path(directory) for directory in dict.fromkeys(directories)]


def _sees_packages_outside_of_itself() -> bool:
    """Whether the target is no virtual environment, or one with system-site-packages."""
    if sys.prefix == sys.base_prefix:
        return True
    configuration = Path(sys.prefix, "pyvenv.cfg")
    return configuration.is_file() and bool(
        re.search(
            r"^include-system-site-packages\s*=\s*true",
            configuration.read_text(encoding="utf-8"),
            re.IGNORECASE | re.MULTILINE,
        )
    )


def _in_directory(directory: Path) -> TensorFlow | None:
    package = directory / "tensorflow"
    if not package.is_dir():
        return None
    for distribution in importlib.metadata.distributions(path=[str(directory)]):
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        if name in DISTRIBUTIONS:
            return TensorFlow(name, distribution.version, package)
    return None


if __name__ == "__main__":
    try:
        chosen = require()
    except BuildError as error:
        sys.exit(f"tf_collectives: {error}")
    print(f"{chosen.version};{chosen.directory}")
