"""Importing the package is light, and refuses a TensorFlow that it wasn't built for."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import fake_tensorflow

import tf_collectives
from tf_collectives import _build_info, _compatibility


def python(code: str, *first_on_path: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter."""
    path = os.pathsep.join(map(str, first_on_path))
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("module", ["tf_collectives", "tf_collectives.launch"])
def test_import_is_light(module: str) -> None:
    loaded = python(f"import sys, {module}; print(*sys.modules)").stdout.split()
    assert module in loaded
    assert not {"tensorflow", "keras", "numpy"} & set(loaded)


def test_another_tensorflow_minor_is_refused(tmp_path: Path) -> None:
    fake_tensorflow.install(tmp_path, "2.3.4", "tensorflow")
    done = python("import tf_collectives", tmp_path)
    assert done.returncode == 1
    minor, version = _build_info.TF_MINOR, _build_info.VERSION
    error = done.stderr[done.stderr.index("ImportError: ") :]
    assert f"tf_collectives {version} was built for TensorFlow {minor}" in error
    assert "tensorflow 2.3.4 is installed" in error
    assert "\n  pip install --force-reinstall --no-deps --no-cache-dir " in error
    assert error.endswith(f"\n  pip install 'tensorflow=={minor}.*'\n")


def test_other_patch_versions_are_accepted() -> None:
    _compatibility.check_version(f"{_build_info.TF_MINOR}.99")
    with pytest.raises(ImportError, match="is installed"):
        _compatibility.check_version(f"{_build_info.TF_MINOR}9.0")


def test_missing_tensorflow_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compatibility, "_installed", lambda: None)
    with pytest.raises(ImportError, match=rf"pip install 'tensorflow=={_build_info.TF_MINOR}\.\*'"):
        _compatibility.check()


def test_tensorflow_of_an_unknown_distribution_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (known,) = [name for name in _compatibility.DISTRIBUTIONS if _compatibility._version(name)]
    monkeypatch.setattr(_compatibility, "DISTRIBUTIONS", ())
    found = _compatibility._installed()
    assert found is not None
    assert found[0] == _compatibility._version(known)


@pytest.mark.parametrize(
    ("origin", "argument"),
    [
        ('{"url": "file:///home/me/source", "dir_info": {}}', "/home/me/source"),
        ('{"url": "file:///me", "dir_info": {"editable": true}}', "-e /me"),
        ('{"url": "https://host/r.git", "vcs_info": {"vcs": "git"}}', "git+https://host/r.git"),
        ('{"url": "file:///x.whl", "archive_info": {}}', "SOURCE_DIRECTORY_OF_TF_COLLECTIVES"),
        (None, "SOURCE_DIRECTORY_OF_TF_COLLECTIVES"),
    ],
)
def test_rebuild_command_names_the_source(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, argument: str
) -> None:
    class Distribution:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return origin

    monkeypatch.setattr(
        _compatibility.importlib.metadata, "distribution", lambda _name: Distribution()
    )
    assert _compatibility._rebuild_command().endswith(f"--no-cache-dir {argument}")


def test_source_tree_that_is_not_built_says_so(tmp_path: Path) -> None:
    package = tmp_path / "tf_collectives"
    package.mkdir()
    for name in ("__init__.py", "_compatibility.py"):
        shutil.copy(Path(tf_collectives.__file__).with_name(name), package)
    done = python(f"import sys; sys.meta_path[:] = sys.meta_path[-3:]; "
                  f"sys.path.insert(0, {str(tmp_path)!r}); import tf_collectives")  # fmt: skip
    assert done.returncode == 1
    assert f"ImportError: tf_collectives in {package} is not built" in done.stderr
    assert "pip install ." in done.stderr


def test_lists_of_public_names_agree() -> None:
    resolved = {*tf_collectives._MODULE_OF, *tf_collectives._SUBMODULES, "op_library"}
    assert set(tf_collectives.__all__) == resolved
    assert len(tf_collectives.__all__) == len(set(tf_collectives.__all__))
    assert set(tf_collectives.__all__) <= set(dir(tf_collectives))


def test_every_public_name_resolves() -> None:
    for name in tf_collectives.__all__:
        assert getattr(tf_collectives, name) is not None


def test_public_names_are_those_of_their_modules() -> None:
    for name, module in tf_collectives._MODULE_OF.items():
        defined = getattr(importlib.import_module(f"tf_collectives.{module}"), name)
        assert getattr(tf_collectives, name) is defined


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'allredcue'"):
        tf_collectives.allredcue  # noqa: B018


def test_op_library_loads() -> None:
    assert Path(tf_collectives.op_library()).name == "tf_collectives_ops.so"
    code = (
        "import tensorflow as tf, tf_collectives; "
        "library = tf.load_op_library(tf_collectives.op_library()); "
        "print('collectives_all_reduce' in dir(library))"
    )
    done = python(code)
    assert done.stdout.strip() == "True", done.stderr
