"""Whatever happens to a job, no file, memory segment or socket of it stays behind."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from support.forking import start
from support.processes import assert_gone

import tf_collectives as hvd

NAMED = ("/dev/shm/", "/tmp/", "/run/", "/var/tmp/", os.environ.get("TMPDIR", "/tmp") + "/")


def busy() -> None:
    import tensorflow as tf

    hvd.init()
    tensor = tf.ones([4 << 20])
    for _ in range(3):
        hvd.allreduce(tensor)
    print("job", os.environ["TFC_JOB_ID"])
    input()
    while True:
        hvd.allreduce(tensor)


def files_of(pid: int) -> set[str]:
    """Return the paths of all files that a process has open or mapped, as far as they exist."""
    paths = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        paths.add(line.split(maxsplit=5)[5] if len(line.split(maxsplit=5)) == 6 else "")
    return {path for path in paths if not path.endswith("(deleted)")}


def ours(directory: str) -> list[str]:
    names = Path(directory).iterdir() if Path(directory).is_dir() else []
    # The tests' own directories begin like this.
    return [str(p) for p in names if re.search("tfc(?!-tests)|tf_collectives", p.name)]


def sockets_of(job_id: str) -> list[str]:
    return [line for line in Path("/proc/net/unix").read_text().splitlines() if job_id in line]


def segments() -> str:
    return Path("/proc/sysvipc/shm").read_text()


def test_running_job_has_no_file_with_a_name():
    # What has no name can't be left behind, however the job ends.
    with start(busy, 2) as job:
        job.wait_for("job")
        for pid in job.pids:
            found = files_of(pid)
            libraries = {path for path in found if re.search(r"\.so(\.\d+)*$", path)}
            assert any("libtf_collectives.so" in path for path in libraries)
            assert [path for path in found - libraries if path.startswith(NAMED)] == []


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV, signal.SIGABRT]
)
def test_nothing_is_left_of_a_job(number: signal.Signals):
    before = segments()
    with start(busy, 2) as job:
        job.wait_for("job")
        for rank in range(2):
            job.tell(rank)
            job.send(rank, number)
        ended = job.finish()
    assert_gone(job.pids)
    assert all(rank.returncode != 0 for rank in ended)
    job_id = ended[0].stdout.split()[1]
    assert sockets_of(job_id) == []
    assert segments() == before
    assert [name for directory in NAMED for name in ours(directory)] == []


def listens() -> None:
    print("job", os.environ["TFC_JOB_ID"])
    hvd.init()


def test_nothing_is_left_of_a_job_that_did_not_meet():
    with start(listens, 2) as job:
        job.wait_for("job")
        for rank in range(2):
            job.send(rank, signal.SIGKILL)
        ended = job.finish()
    assert sockets_of(ended[0].stdout.split()[1]) == []
    assert [name for directory in NAMED for name in ours(directory)] == []
