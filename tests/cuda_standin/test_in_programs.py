"""What the stand-in does to a TensorFlow program, where it ends badly or can't go on."""

from __future__ import annotations

from support import gpu
from support.cuda_log import read_calls
from support.launching import run_ranks


def test_a_kernel_of_tensorflow_makes_all_that_follows_fail():
    result = run_ranks(
        """
        import tensorflow as tf

        with tf.device("/GPU:0"):
            x = tf.constant([1.0, 2.0])
            try:
                print((x + x).numpy())
            except tf.errors.OpError as error:
                print("first:", error.message)
            try:
                print(x.numpy())
            except tf.errors.OpError as error:
                print("second:", error.message)
        """,
        np=1,
        expect=None,
    )
    assert "the CUDA stand-in has no host version of it" in result.stderr[0] + result.stdout[0]
    assert "[2. 4.]" not in result.stdout[0]
    assert "[1. 2.]" not in result.stdout[0]


def test_a_kernel_of_ours_runs_on_a_tensor():
    kernels = gpu.standin_directory() / "libtest_kernels.so"
    result = run_ranks(
        """
        import ctypes

        import tensorflow as tf

        driver = ctypes.CDLL("libcuda.so.1")
        pythonapi = ctypes.pythonapi
        pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
        pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

        def call(name, *arguments):
            result = getattr(driver, name)(*arguments)
            assert result == 0, (name, result)

        with tf.device("/GPU:0"):
            x = tf.constant([1.0, 2.0, 3.0])
        capsule = tf.experimental.dlpack.to_dlpack(x)
        # The first member of a DLTensor is the address.
        address = ctypes.c_void_p.from_address(pythonapi.PyCapsule_GetPointer(capsule, b"dltensor"))

        context, module, function, stream = (ctypes.c_void_p() for _ in range(4))
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        call("cuCtxPushCurrent_v2", context)
        image = b".version 8.0\\n.target sm_70\\n.visible .entry scale(\\n"
        call("cuModuleLoadData", ctypes.byref(module), image)
        call("cuModuleGetFunction", ctypes.byref(function), module, b"scale")
        call("cuStreamCreate", ctypes.byref(stream), 1)
        values = address, ctypes.c_float(10.0), ctypes.c_int(3)
        parameters = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
        call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, None)
        call("cuStreamSynchronize", stream)
        print(x.numpy())
        """,
        np=1,
        env={"CUDA_STANDIN_KERNELS": str(kernels)},
    )
    assert "[10. 20. 30.]" in result.stdout[0]


def test_host_code_that_reads_device_memory_crashes():
    result = run_ranks(
        """
        import ctypes

        import tensorflow as tf

        with tf.device("/GPU:0"):
            x = tf.constant([1.0, 2.0, 3.0])
        capsule = tf.experimental.dlpack.to_dlpack(x)
        ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
        ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        pointer = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor")
        print("reading", flush=True)
        print(ctypes.c_float.from_address(ctypes.c_void_p.from_address(pointer).value))
        """,
        np=1,
        expect=None,
    )
    assert result.stdout[0] == "reading\n"
    assert "Segmentation fault" in result.stderr[0]


def test_calls_are_logged(tmp_path):
    log = tmp_path / "calls"
    run_ranks(
        """
        import tensorflow as tf

        with tf.device("/GPU:0"):
            tf.constant([1.0] * 100).numpy()
        """,
        np=1,
        env={"CUDA_STANDIN_LOG": str(log)},
    )
    calls = read_calls(log)
    assert any(call["call"] == "cuMemcpyHtoDAsync" and call["bytes"] == 400 for call in calls)
    assert {call["rank"] for call in calls} == {0}
