from __future__ import annotations

VERSION: str
TF_VERSION: str
TF_MINOR: str
