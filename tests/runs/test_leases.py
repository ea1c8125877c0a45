"""Locks at an address: held by one, given back, taken over from the dead and only from them."""

import itertools
import json
import threading
import time
from contextlib import contextmanager

import pytest
from filelock import Timeout

from lexergy.errors import LexergyError
from lexergy.files import atomic_write_text
from lexergy.runs import leases
from lexergy.runs.leases import Lease
from lexergy.storage import LOCKS, mirror_of, mirrored


@pytest.fixture
def mirror(place):
    return mirror_of(mirrored(place))


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.1)
    monkeypatch.setattr(leases, "DEAD_SECONDS", 1.0)
    monkeypatch.setattr(leases, "LOOK_SECONDS", 0.05)


def hold_elsewhere(mirror, beat=0, number=1, **content):
    """A lease that a process of another machine holds."""
    path = f"{mirror.root}/{LOCKS}/.lock/{number:08d}"
    mirror.filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    held = {"owner": "somebody", "machine": "elsewhere", "here": "there", "beat": beat, "process": 1} | content
    mirror.filesystem.pipe_file(path, json.dumps(held).encode())


@contextmanager
def beating_elsewhere(mirror, number):
    """Its holder shows signs of life all the time, however slow this machine is."""
    ended = threading.Event()

    def beat():
        for beat in itertools.count(1):
            hold_elsewhere(mirror, beat, number)
            if ended.wait(0.1):
                return

    living = threading.Thread(target=beat)
    living.start()
    try:
        yield
    finally:
        ended.set()
        living.join()


def test_a_lease_has_one_holder_until_it_is_given_back(mirror):
    with Lease(mirror, mirror.path, ".lock"):
        with pytest.raises(Timeout):
            Lease(mirror, mirror.path, ".lock", timeout=0).acquire()
        with Lease(mirror, mirror.path, ".part-1-of-2.lock", timeout=0):
            assert leases.lease_names(mirror, mirror.path) == [".lock", ".part-1-of-2.lock"]
    with Lease(mirror, mirror.path, ".lock", timeout=0), pytest.raises(Timeout):
        Lease(mirror, mirror.path, ".lock", timeout=0).acquire()


def test_who_waits_gets_it(mirror, quick):
    first, second = Lease(mirror, mirror.path, ".lock"), Lease(mirror, mirror.path, ".lock")
    first.acquire()
    waiting = threading.Thread(target=second.acquire)
    waiting.start()
    waiting.join(1.5)  # longer than a silent holder is believed to live
    assert waiting.is_alive()
    first.release()
    waiting.join(10)
    assert not waiting.is_alive()
    second.release()


def test_a_dead_process_of_this_machine_holds_nothing(mirror):
    hold_elsewhere(mirror, here=leases._here(), process=2**22 + 1, started=0.0)
    started = time.monotonic()
    with Lease(mirror, mirror.path, ".lock", timeout=0):
        assert time.monotonic() - started < leases.DEAD_SECONDS / 2


def test_a_living_process_of_this_machine_is_not_taken_for_a_dead_one_of_its_number(mirror):
    import psutil

    own = psutil.Process()
    hold_elsewhere(mirror, here=leases._here(), process=own.pid, started=own.create_time())
    with pytest.raises(Timeout):
        Lease(mirror, mirror.path, ".lock", timeout=0).acquire()
    hold_elsewhere(mirror, here=leases._here(), process=own.pid, started=own.create_time() - 1000)
    Lease(mirror, mirror.path, ".lock", timeout=0).acquire()


def test_a_silent_machine_is_believed_to_live_for_a_while(mirror, quick, capsys):
    hold_elsewhere(mirror)
    started = time.monotonic()
    with Lease(mirror, mirror.path, ".lock", timeout=0):
        assert time.monotonic() - started >= leases.DEAD_SECONDS
    assert "looking whether elsewhere is still at work" in capsys.readouterr().err


def test_a_machine_that_shows_signs_of_life_keeps_its_lease(mirror, quick):
    hold_elsewhere(mirror)
    ended = threading.Event()

    def live():
        beat = 0
        while not ended.wait(0.2):
            beat += 1
            hold_elsewhere(mirror, beat)

    living = threading.Thread(target=live)
    living.start()
    try:
        with pytest.raises(Timeout):
            Lease(mirror, mirror.path, ".lock", timeout=0).acquire()
    finally:
        ended.set()
        living.join()


def test_of_many_who_find_a_dead_holder_one_takes_over(mirror, quick):
    hold_elsewhere(mirror, here=leases._here(), process=2**22 + 1, started=0.0)
    taken, start = [], threading.Barrier(6)

    def take():
        start.wait()
        lease = Lease(mirror, mirror.path, ".lock", timeout=0)
        try:
            lease.acquire()
            taken.append(lease)
        except Timeout:
            pass

    takers = [threading.Thread(target=take) for _ in range(6)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert len(taken) == 1
    taken[0].release()


def test_who_lost_its_lease_publishes_nothing(mirror, quick):
    atomic_write_text(mirror.path / "before", "before")
    with Lease(mirror, mirror.path, ".lock") as lease:
        atomic_write_text(mirror.path / "during", "during")
        hold_elsewhere(mirror, number=2)
        lease._thread.join(10)
        with pytest.raises(LexergyError, match=r"lost its lock on .*://.*run the same command again"):
            atomic_write_text(mirror.path / "after", "after")
        with pytest.raises(LexergyError, match="lost its lock"):
            mirror.remove_all(["before"])
    assert set(mirror.list(mirror.path)) == {"before", "during"}
    with beating_elsewhere(mirror, number=2), pytest.raises(Timeout):
        # Giving back what it has lost took nothing from the new holder.
        Lease(mirror, mirror.path, ".lock", timeout=0).acquire()
