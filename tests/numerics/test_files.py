"""Files take the place of files only, leave nothing behind, and say where a disk is full."""

import os
import re
import shutil
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from extras import small_files
from numpy.testing import assert_array_equal

import skout
from skout.kernels import Gaussian

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and limits")

# What is there and is no file ---------------------------------------------------------------------


def test_pipes_are_written_into(tmp_path):
    pipe, copy = tmp_path / "pipe", tmp_path / "copy"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        skout.save(Gaussian(0.25), pipe)
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        copy.write_bytes(os.read(reader, 2**16))
    finally:
        os.close(reader)
    assert skout.load(copy).gamma == 0.25


@pytest.mark.parametrize("linked", [False, True])
def test_devices_are_written_into(linked, tmp_path):
    device, link = tmp_path / "null", tmp_path / "link"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    link.symlink_to(device)
    skout.save(Gaussian(), link if linked else device)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [link, device]


def test_what_cannot_be_written_is_refused(tmp_path):
    import socket

    place = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(place))  # names of sockets are short
        with pytest.raises(OSError, match=r"no file: give another path.*socket"):
            skout.save(Gaussian(), place)
    assert stat.S_ISSOCK(place.stat().st_mode)


def test_pools_are_not_mapped_to_pipes(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    Y = np.eye(3)
    decoder = skout.decoding.CandidateDecoder().fit(skout.KernelBasis("linear").fit(Y), Y)
    with pytest.raises(ValueError, match=r"path must be a file\. Got .*pipe', a pipe or a device"):
        decoder.embed(Y, pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_links_of_pools_stay(tmp_path):
    target, link = tmp_path / "pool.npy", tmp_path / "link.npy"
    link.symlink_to(target.name)  # there is none yet
    Y = np.eye(3)
    decoder = skout.decoding.CandidateDecoder().fit(skout.KernelBasis("linear").fit(Y), Y)
    for rows in (Y, 2.0 * Y):
        pool = decoder.embed(rows, link)
        assert link.is_symlink()
        assert_array_equal(np.load(target), pool.embedding)
        assert_array_equal(pool.embedding, decoder.embed(rows).embedding)


# Killed processes ---------------------------------------------------------------------------------

STOPPED = """
import os, sys, time
import skout

def stop(*names):
    print("writing", flush=True)
    time.sleep(60)
os.replace = stop
skout.save([1, 2], sys.argv[1])
"""


def left_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".tmp"))


def give_time(folder, seconds):
    for name in left_in(folder):
        os.utime(folder / name, times=(seconds, seconds))


def test_files_of_saves_that_go_on_stay_and_of_killed_ones_are_removed(tmp_path):
    path = tmp_path / "model"
    line = [sys.executable, "-c", STOPPED, str(path)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "writing\n"
            give_time(tmp_path, time.time() - 3600)
            (left,) = left_in(tmp_path)
            skout.save(Gaussian(), path)
            assert left_in(tmp_path) == [left]
        finally:
            other.kill()
    give_time(tmp_path, time.time())
    (tmp_path / ".skout-mine.tmp").touch()
    skout.save(Gaussian(), path)
    assert len(left_in(tmp_path)) == 2  # it could be of another machine
    give_time(tmp_path, time.time() - 3600)
    skout.save(Gaussian(), path)
    assert left_in(tmp_path) == [".skout-mine.tmp"]


# Full disks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["save", "embed"])
def test_a_full_disk_is_named(how, tmp_path):
    Y = np.random.default_rng(0).standard_normal((2000, 100))
    decoder = skout.decoding.CandidateDecoder().fit(skout.KernelBasis("linear").fit(Y), Y)
    write = {"save": skout.save, "embed": decoder.embed}[how]
    message = re.escape(f"[Errno 27] File too large: '{tmp_path}/file'")
    with small_files(20_000), pytest.raises(OSError, match=message):
        write(Y, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


FILLED = """
import os, sys
import numpy as np
import skout

folder = sys.argv[1]
Y = np.random.default_rng(0).standard_normal((2000, 100))
decoder = skout.decoding.CandidateDecoder().fit(skout.KernelBasis("linear").fit(Y), Y)
try:
    decoder.embed(Y, folder + "/pool.npy")
except OSError as error:
    print(error, os.listdir(folder))
"""


def small_disk():
    """The words that run a command with a disk of one megabyte, which nobody else sees."""
    words = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    script = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'
    return [*words, script]


def test_a_full_disk_does_not_end_the_process(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    if subprocess.run([*small_disk(), tmp_path, "true"], check=False).returncode:
        pytest.skip("no disk may be mounted here")
    line = [*small_disk(), tmp_path, sys.executable, "-c", FILLED, tmp_path]
    found = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 0, found
    expected = f"[Errno 28] No space left on device: '{tmp_path}/pool.npy' []"
    assert found.stdout.strip() == expected
