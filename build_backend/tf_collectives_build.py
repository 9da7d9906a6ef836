"""PEP 517 backend: scikit-build-core, building for the TensorFlow of the target environment.

Where something is missing, the last line of the output says what; it is the line that people read
below pip's own.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable
from typing import TypeVar

import scikit_build_core.build as backend

import cuda_kernels
import target_tensorflow
from first_error import FirstError
from target_tensorflow import BuildError

ConfigSettings = dict[str, "list[str] | str"]
Result = TypeVar("Result")


def get_requires_for_build_sdist(config_settings: ConfigSettings | None = None) -> list[str]:
    """Return what building a source distribution needs; it needs no TensorFlow."""
    return backend.get_requires_for_build_sdist(config_settings)


def build_sdist(sdist_directory: str, config_settings: ConfigSettings | None = None) -> str:
    """Build a source distribution."""
    return backend.build_sdist(sdist_directory, config_settings)


def _ends_with_reason(hook: Callable[..., Result]) -> Callable[..., Result]:
    @functools.wraps(hook)
    def wrapper(*args: object, **kwargs: object) -> Result:
        try:
            return hook(*args, **kwargs)
        except BuildError as error:
            raise SystemExit(f"tf_collectives: {error}") from None

    return wrapper


@_ends_with_reason
def get_requires_for_build_wheel(config_settings: ConfigSettings | None = None) -> list[str]:
    """Return what building a wheel needs, with a TensorFlow only where none is installed."""
    return backend.get_requires_for_build_wheel(config_settings) + _missing()


@_ends_with_reason
def get_requires_for_build_editable(config_settings: ConfigSettings | None = None) -> list[str]:
    """Return what an editable installation needs."""
    return backend.get_requires_for_build_editable(config_settings) + _missing()


@_ends_with_reason
def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the metadata that the wheel will have."""
    return backend.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


@_ends_with_reason
def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the metadata that the editable wheel will have."""
    return backend.prepare_metadata_for_build_editable(metadata_directory, config_settings)


@_ends_with_reason
def build_wheel(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel for the TensorFlow of the target environment."""
    return _compile(backend.build_wheel, wheel_directory, config_settings, metadata_directory)


@_ends_with_reason
def build_editable(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build an editable wheel for the TensorFlow of the target environment."""
    return _compile(backend.build_editable, wheel_directory, config_settings, metadata_directory)


def _missing() -> list[str]:
    found = target_tensorflow.find()
    if found is None:
        return [target_tensorflow.requirement(), *cuda_kernels.missing_requirement()]
    target_tensorflow.check(found)
    return cuda_kernels.missing_requirement()


def _compile(
    build: Callable[[str, ConfigSettings | None, str | None], str],
    wheel_directory: str,
    config_settings: ConfigSettings | None,
    metadata_directory: str | None,
) -> str:
    tensorflow = target_tensorflow.require()
    _require_compiler()
    os.environ["TFC_TF_DIR"] = str(tensorflow.directory)
    os.environ["TFC_TF_VERSION"] = tensorflow.version
    print(
        f"tf_collectives: building for {tensorflow.distribution} {tensorflow.version} "
        f"in {tensorflow.directory}",
        file=sys.stderr,
        flush=True,
    )
    with FirstError() as first_error:
        try:
            return build(wheel_directory, config_settings, metadata_directory)
        except SystemExit:
            failed = True
    assert failed
    raise BuildError(first_error.text or "the build failed; the reason stands above.")


def _require_compiler() -> None:
    named = os.environ.get("CXX", "").split()
    if not any(shutil.which(name) for name in named[:1] or ("c++", "g++", "clang++")):
        raise BuildError(
            f"the C++ compiler {named[0]!r} named by CXX was not found."
            if named
            else "no C++ compiler found. Install one (on Debian: apt-get install g++)."
        )
