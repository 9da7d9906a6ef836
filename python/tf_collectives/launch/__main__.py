"""`python -m tf_collectives.launch` is `tfcrun`."""

from __future__ import annotations

import sys

from tf_collectives.launch import main

sys.exit(main())
