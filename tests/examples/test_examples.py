from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.launching import run_ranks

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("name", ["train_digits.py", "custom_loop.py"])
def test_example_learns_and_ranks_stay_equal(name, size):
    result = run_ranks(EXAMPLES / name, np=size)
    *epochs, last = result.stdout[0].splitlines()
    match = re.fullmatch(
        rf"All ranks \({size}\) hold bitwise the same weights, SHA-256 \w{{16}}\.\.\. "
        r"Test accuracy: (0\.\d+)",
        last,
    )
    assert match, str(result)
    assert float(match[1]) > 0.95
    losses = [float(loss) for loss in re.findall(r"loss:? (\d\.\d+)", "\n".join(epochs))]
    assert len(losses) == 12
    assert losses[-1] < losses[0] / 5
    assert not any(result.stdout[1:]), "only rank 0 is to print"
