"""Version and extras name the TensorFlow minor version that a wheel is built for."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from pathlib import Path

import pytest
from support import fake_tensorflow

import target_tensorflow
import tf_collectives
from tf_collectives import _build_info
from tf_collectives_metadata import Provider

SETTINGS = {"version": "1.2.3", "tensorflow-extras": {"cpu": "tensorflow-cpu"}}
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def metadata(state: str) -> dict[str, object]:
    provider = Provider()
    provider.build_state(state)
    return provider.dynamic_metadata(SETTINGS, {})


@pytest.mark.parametrize("state", ["wheel", "editable", "metadata_wheel", "metadata_editable"])
def test_wheel_names_tensorflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setenv("TFC_TF_DIR", str(fake_tensorflow.install(tmp_path, "2.17.1")))
    assert metadata(state) == {
        "version": "1.2.3+tf2.17",
        "optional-dependencies": {"cpu": ["tensorflow-cpu==2.17.*"]},
    }


def test_source_distribution_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_tensorflow, "find", lambda: None)
    assert metadata("sdist") == {"version": "1.2.3"}


def test_extras_ask_for_the_supported_range() -> None:
    text = PYPROJECT.read_text(encoding="utf-8")
    for distribution in ("tensorflow", "tensorflow-cpu"):
        assert f'["{distribution}{target_tensorflow.SPECIFIER}"]' in text


def test_installed_version_is_that_of_the_build() -> None:
    version = importlib.metadata.version("tf_collectives")
    stated = re.search(r'^version = "(.*)"$', PYPROJECT.read_text(encoding="utf-8"), re.MULTILINE)
    assert stated is not None
    assert version == f"{stated[1]}+tf{_build_info.TF_MINOR}"
    assert tf_collectives.__version__ == _build_info.VERSION == version
    assert _build_info.TF_VERSION.startswith(f"{_build_info.TF_MINOR}.")


def test_wheel_is_for_this_interpreter_and_platform() -> None:
    wheel = importlib.metadata.distribution("tf_collectives").read_text("WHEEL")
    assert wheel is not None
    assert re.search(r"^Tag: (cp3\d+)-\1-(many)?linux_\w+$", wheel, re.MULTILINE)
    assert "Root-Is-Purelib: false" in wheel


def test_tfcrun_is_installed() -> None:
    scripts = importlib.metadata.distribution("tf_collectives").entry_points
    assert [(script.name, script.value) for script in scripts] == [
        ("tfcrun", "tf_collectives.launch:main")
    ]


@pytest.mark.parametrize(
    "name", ["libtf_collectives.so", "libtf_collectives_cuda.so", "tf_collectives_ops.so", "_core"]
)
def test_shared_objects_find_each_other_by_place(name: str) -> None:
    directory = Path(tf_collectives.op_library()).parent
    (library,) = [path for path in directory.glob("*.so") if path.name.startswith(name)]
    headers = subprocess.run(
        ["readelf", "--dynamic", library], check=True, capture_output=True, text=True
    ).stdout
    assert re.findall(r"\((?:RUN|R)PATH\).*\[(.*)\]", headers) == ["$ORIGIN"]
    assert not re.search(r"NEEDED.*\[.*/.*\]", headers)
