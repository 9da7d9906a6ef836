"""Directories that look like an installed TensorFlow to a build."""

from __future__ import annotations

from pathlib import Path


def install(
    site_packages: Path, version: str, distribution: str = "tensorflow", headers: bool = True
) -> Path:
    """Lay the files that a build looks at; return the package directory."""
    package = site_packages / "tensorflow"
    package.mkdir(parents=True)
    (package / "libtensorflow_framework.so.2").touch()
    if headers:
        framework = package / "include" / "tensorflow" / "core" / "framework"
        framework.mkdir(parents=True)
        (framework / "op_kernel.h").touch()
    metadata = site_packages / f"{distribution.replace('-', '_')}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    return package
