"""Compiles the CUDA kernels with NVRTC, NVIDIA's compiler library.

It needs neither a CUDA toolkit nor a GPU, and comes from PyPI as
``nvidia-cuda-nvrtc-cu12``. It is a program, too:

    cuda_kernels.py find       # prints nothing where there is none
    cuda_kernels.py missing    # prints what to install
    cuda_kernels.py compile LIBRARY INCLUDE_DIRECTORY OUTPUT_DIRECTORY SOURCE
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import target_tensorflow
from target_tensorflow import BuildError

DISTRIBUTION = "nvidia-cuda-nvrtc-cu12"
# The first one that knows Blackwell.
REQUIREMENT = f"{DISTRIBUTION}>=12.8"
LIBRARY = Path("nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.12")

# Machine code for these, where the compiler knows them. It also runs on later minor versions.
ARCHITECTURES = (70, 75, 80, 86, 89, 90, 100, 120)
# The driver makes code for all others from the PTX of the oldest.
PTX_ARCHITECTURE = 70


@dataclass(frozen=True)
class Image:
    """Kernels compiled for one architecture."""

    architecture: int
    is_ptx: bool
    code: bytes

    @property
    def filename(self) -> str:
        """Name such as ``kernels.sm_90.cubin``."""
        if self.is_ptx:
            return f"kernels.compute_{self.architecture}.ptx"
        return f"kernels.sm_{self.architecture}.cubin"


def find() -> Path | None:
    """Return the NVRTC library of the build environment, else of the target's, else None."""
    for directory in [*map(Path, sys.path), *target_tensorflow.search_path()]:
        library = directory / LIBRARY
        if library.is_file():
            return library.absolute()
    return None


def missing_requirement() -> list[str]:
    """Return what to install into the build environment, which is nothing if NVRTC is there.

    Other processors have no wheels of it, and no CUDA 12 either.
    """
    if platform.machine() not in ("x86_64", "aarch64") or find() is not None:
        return []
    return [REQUIREMENT]


class Compiler:
    """NVRTC, as loaded from a file."""

    def __init__(self, library: Path) -> None:
        try:
            self._nvrtc = ctypes.CDLL(str(library))
        except OSError as error:
            raise BuildError(
                f"the CUDA compiler {library} can't be loaded: {error}. Install it again: "
                f"pip install --force-reinstall '{REQUIREMENT}'"
            ) from None
        self._nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    def architectures(self) -> set[int]:
        """Return the architectures that this version knows."""
        count = ctypes.c_int()
        self._call("GetNumSupportedArchs", ctypes.byref(count))
        known = (ctypes.c_int * count.value)()
        self._call("GetSupportedArchs", known)
        return set(known)

    def compile(self, source: Path, include: Path, architecture: int, *, ptx: bool) -> Image:
        """Compile a file for one architecture."""
        program = ctypes.c_void_p()
        text = source.read_bytes()
        name = str(source).encode()
        self._call("CreateProgram", ctypes.byref(program), text, name, 0, None, None)
        try:
            kind = "compute" if ptx else "sm"
            options = [
                f"--gpu-architecture={kind}_{architecture}".encode(),
                f"--include-path={include}".encode(),
                b"--std=c++17",
            ]
            array = (ctypes.c_char_p * len(options))(*options)
            failed = self._nvrtc.nvrtcCompileProgram(program, len(options), array)
            for line in self._text(program, "ProgramLog").strip(b"\0").decode().splitlines():
                # That a later compiler won't know this architecture is no fault of the source.
                if line and "are deprecated and may be removed" not in line:
                    print(line, file=sys.stderr)
            if failed:
                raise BuildError(f"{source} doesn't compile for {kind}_{architecture}; see above.")
            code = self._text(program, "PTX" if ptx else "CUBIN")
        finally:
            self._call("DestroyProgram", ctypes.byref(program))
        return Image(architecture, ptx, code)

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"Get{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", program, buffer)
        return buffer.raw

    def _call(self, function: str, *arguments: object) -> None:
        failed = getattr(self._nvrtc, f"nvrtc{function}")(*arguments)
        if failed:
            reason = self._nvrtc.nvrtcGetErrorString(failed).decode()
            raise BuildError(f"nvrtc{function} of the CUDA compiler failed: {reason}.")


def compile_all(library: Path, include: Path, source: Path) -> Iterator[Image]:
    """Compile a file for every architecture."""
    compiler = Compiler(library)
    known = compiler.architectures()
    for architecture in ARCHITECTURES:
        if architecture in known:
            yield compiler.compile(source, include, architecture, ptx=False)
    yield compiler.compile(source, include, PTX_ARCHITECTURE, ptx=True)


def write(images: list[Image], directory: Path) -> None:
    """Write the images, and ``kernel_images.cc``, which embeds them."""
    assembler = []
    declarations = []
    entries = []
    for image in images:
        path = directory / image.filename
        path.write_bytes(image.code)
        symbol = "tfc_" + image.filename.replace(".", "_")
        # The driver takes an image without its length, and PTX as a string that ends with zero.
        assembler.append(
            f'asm(".pushsection .rodata\\n.balign 16\\n.hidden {symbol}\\n.global {symbol}\\n'
            f'{symbol}:\\n.incbin \\"{path}\\"\\n.byte 0\\n.popsection\\n");'
        )
        declarations.append(f"extern const char {symbol}[];")
        is_ptx = "true" if image.is_ptx else "false"
        entries.append(f"      {{{image.architecture}, {is_ptx}, {symbol}, {len(image.code)}}},")
    lines = [
        "// Written by build_backend/cuda_kernels.py.",
        '#include "cuda/kernel_images.h"',
        *assembler,
        'extern "C" {',
        *declarations,
        "}",
        "namespace tf_collectives::cuda {",
        "const std::vector<KernelImage>& KernelImages() {",
        "  static const auto& images = *new std::vector<KernelImage>{",
        *entries,
        "  };",
        "  return images;",
        "}",
        "}  // namespace tf_collectives::cuda",
    ]
    Path(directory, "kernel_images.cc").write_text("\n".join([*lines, ""]), encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Run the program."""
    if arguments == ["find"]:
        print(find() or "")
        return
    if arguments == ["missing"]:
        print(*missing_requirement())
        return
    library, include, output, source = map(Path, arguments[1:])
    output.mkdir(parents=True, exist_ok=True)
    write(list(compile_all(library, include, source)), output)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BuildError as failure:
        sys.exit(f"error: {failure}")
