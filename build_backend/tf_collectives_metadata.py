"""What the package's metadata says about TensorFlow; a provider for scikit-build-core.

A wheel fits one TensorFlow minor version. Its version names it (``0.1.0+tf2.21``), and its extras
that install TensorFlow ask for that minor version. A source distribution fits all and names none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import target_tensorflow


class Provider:
    """The hooks that scikit-build-core calls, in the order in which it calls them."""

    _state = "wheel"

    def build_state(self, state: str) -> None:
        """Take what is being built: sdist, wheel, editable, metadata_wheel, metadata_editable."""
        self._state = state

    def dynamic_metadata(
        self, settings: Mapping[str, Any], _project: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the fields of ``[project]`` that depend on TensorFlow."""
        version = settings["version"]
        if self._state == "sdist":
            return {"version": version}
        minor = target_tensorflow.require().minor
        return {
            "version": f"{version}+tf{minor}",
            "optional-dependencies": {
                extra: [f"{distribution}=={minor}.*"]
                for extra, distribution in settings["tensorflow-extras"].items()
            },
        }

    def dynamic_wheel(self, _settings: Mapping[str, Any]) -> dict[str, bool]:
        """Return the fields that a wheel changes."""
        return {"optional-dependencies": True}
