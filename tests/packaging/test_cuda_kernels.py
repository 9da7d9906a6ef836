"""The build finds NVIDIA's compiler by import path, and compiles the CUDA kernels with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import cuda_kernels
import target_tensorflow
import tf_collectives_build
from target_tensorflow import BuildError

INCLUDE = Path(__file__).parents[2] / "src"
KERNEL = """
extern "C" __global__ void twice(float* values) {
  values[threadIdx.x] *= 2;
}
"""


@pytest.fixture
def no_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_tensorflow, "search_path", list)
    hidden = [entry for entry in sys.path if not (Path(entry) / cuda_kernels.LIBRARY).is_file()]
    monkeypatch.setattr(sys, "path", hidden)


def compiler() -> cuda_kernels.Compiler:
    library = cuda_kernels.find()
    assert library is not None, f"install {cuda_kernels.REQUIREMENT}"
    return cuda_kernels.Compiler(library)


@pytest.mark.usefixtures("no_nvrtc")
def test_asks_for_nvrtc_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_tensorflow, "find", lambda: None)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert cuda_kernels.find() is None
    assert cuda_kernels.REQUIREMENT in tf_collectives_build.get_requires_for_build_wheel()
    assert cuda_kernels.REQUIREMENT in tf_collectives_build.get_requires_for_build_editable()


@pytest.mark.usefixtures("no_nvrtc")
def test_does_without_where_there_are_no_wheels_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert cuda_kernels.missing_requirement() == []


@pytest.mark.usefixtures("no_nvrtc")
def test_finds_nvrtc_of_the_target_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / cuda_kernels.LIBRARY
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(target_tensorflow, "search_path", lambda: [tmp_path])
    assert cuda_kernels.find() == library
    assert cuda_kernels.missing_requirement() == []
    with pytest.raises(BuildError, match=r"can't be loaded: .*pip install --force-reinstall"):
        cuda_kernels.Compiler(library)


def test_compiles_machine_code_and_ptx(tmp_path: Path) -> None:
    source = tmp_path / "twice.cu"
    source.write_text(KERNEL)
    machine_code = compiler().compile(source, INCLUDE, 80, ptx=False)
    assert machine_code.code.startswith(b"\x7fELF")
    ptx = compiler().compile(source, INCLUDE, 70, ptx=True)
    assert b".target sm_70" in ptx.code
    cuda_kernels.write([machine_code, ptx], tmp_path)
    embedding = (tmp_path / "kernel_images.cc").read_text()
    assert f"{{80, false, tfc_kernels_sm_80_cubin, {len(machine_code.code)}}}" in embedding
    assert (tmp_path / "kernels.compute_70.ptx").read_bytes() == ptx.code


def test_error_in_a_kernel_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "broken.cu"
    source.write_text("__global__ void broken() { int x = ; }\n")
    with pytest.raises(BuildError, match=r"broken.cu doesn't compile for sm_80"):
        compiler().compile(source, INCLUDE, 80, ptx=False)
    assert "broken.cu(1): error: expected an expression" in capfd.readouterr().err
