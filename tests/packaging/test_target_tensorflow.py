"""The build finds the TensorFlow of the target environment, and says why it can't use one."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest
from support import fake_tensorflow

import target_tensorflow
import tf_collectives_build
from target_tensorflow import BuildError
from tf_collectives import _compatibility


@pytest.fixture(autouse=True)
def _no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFC_TF_DIR", raising=False)


@pytest.fixture
def site_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A target environment without TensorFlow."""
    monkeypatch.setattr(target_tensorflow, "search_path", lambda: [tmp_path])
    return tmp_path


def test_finds_tensorflow_that_build_isolation_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = [entry for entry in sys.path if not (Path(entry) / "tensorflow").is_dir()]
    monkeypatch.setattr(sys, "path", hidden)
    found = target_tensorflow.require()
    monkeypatch.undo()
    assert found.version == importlib.metadata.version(found.distribution)
    assert (found.directory / "libtensorflow_framework.so.2").is_file()


@pytest.mark.parametrize("distribution", target_tensorflow.DISTRIBUTIONS)
def test_knows_each_distribution(site_packages: Path, distribution: str) -> None:
    package = fake_tensorflow.install(site_packages, "2.18.1", distribution)
    found = target_tensorflow.require()
    assert (found.distribution, found.minor, found.directory) == (distribution, "2.18", package)


def test_override_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFC_TF_DIR", str(fake_tensorflow.install(tmp_path, "2.16.2")))
    assert target_tensorflow.require().version == "2.16.2"


def test_override_without_tensorflow_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFC_TF_DIR", str(tmp_path / "tensorflow"))
    with pytest.raises(BuildError, match=r"TFC_TF_DIR is .* unset it"):
        target_tensorflow.find()


@pytest.mark.usefixtures("site_packages")
def test_asks_for_tensorflow_where_there_is_none() -> None:
    asked = tf_collectives_build.get_requires_for_build_wheel()
    assert [name for name in asked if name.startswith("tensorflow")] == [
        target_tensorflow.requirement()
    ]
    with pytest.raises(BuildError, match=r"no TensorFlow found in .*pip install"):
        target_tensorflow.require()


def test_asks_for_none_where_there_is_one(site_packages: Path) -> None:
    fake_tensorflow.install(site_packages, "2.20.0")
    asked = tf_collectives_build.get_requires_for_build_editable()
    assert not [name for name in asked if name.startswith("tensorflow")]


@pytest.mark.parametrize("version", ["2.16.1", "2.21.0"])
def test_supports(site_packages: Path, version: str) -> None:
    fake_tensorflow.install(site_packages, version)
    assert target_tensorflow.require().version == version


@pytest.mark.parametrize("version", ["1.15.5", "2.15.1", "2.22.0rc1", "3.0.0"])
def test_refuses(site_packages: Path, version: str) -> None:
    fake_tensorflow.install(site_packages, version)
    with pytest.raises(BuildError, match=rf"{version} .*not supported; supported are 2.16 to 2.21"):
        target_tensorflow.require()
    with pytest.raises(SystemExit, match="not supported"):
        tf_collectives_build.get_requires_for_build_wheel()


def test_refuses_tensorflow_without_headers(site_packages: Path) -> None:
    fake_tensorflow.install(site_packages, "2.21.0", "tensorflow-cpu", headers=False)
    with pytest.raises(BuildError, match=r"lacks .*op_kernel\.h.*tensorflow-cpu==2\.21\.0"):
        target_tensorflow.require()


def test_build_and_import_know_the_same_distributions() -> None:
    assert target_tensorflow.DISTRIBUTIONS == _compatibility.DISTRIBUTIONS
