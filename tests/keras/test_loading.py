from __future__ import annotations

import subprocess
import sys

import pytest

SAVE = """
import keras
import numpy as np
import tf_collectives.keras as hvd

hvd.init()
model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
model.fit(np.ones((4, 1)), np.ones((4, 1)), verbose=0)
model.save({path!r})
"""

LOAD = """
import keras
{imports}
model = keras.models.load_model({path!r})
print(type(model.optimizer).__module__, model.optimizer.iterations.numpy())
"""

FIT = """
import numpy as np
model.fit(np.ones((4, 1)), np.ones((4, 1)), verbose=0)
"""


def run(program):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("saved") / "model.keras")
    done = run(SAVE.format(path=path))
    assert done.returncode == 0, done.stderr
    return path


def test_a_program_without_the_import_does_not_get_another_optimizer(path):
    done = run(LOAD.format(path=path, imports=""))
    if done.returncode == 0:
        # Older versions of Keras import the module that the file names.
        assert done.stdout.split() == ["tf_collectives.keras.optimizer", "1"]
    else:
        assert "DistributedOptimizer" in done.stderr
        assert "register_keras_serializable" in done.stderr


def test_loading_works_after_the_import(path):
    done = run(LOAD.format(path=path, imports="import tf_collectives.keras"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["tf_collectives.keras.optimizer", "1"]


def test_loading_for_inference_needs_no_import(path):
    program = "import keras; print(keras.models.load_model({path!r}, compile=False).compiled)"
    done = run(program.format(path=path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False"]


def test_training_fails_before_init(path):
    done = run(LOAD.format(path=path, imports="import tf_collectives.keras") + FIT)
    assert done.returncode != 0
    assert "FailedPreconditionError" in done.stderr
    assert "init()" in done.stderr
