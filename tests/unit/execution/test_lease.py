"""The driver's lease: end of file when it goes, a byte when it interrupts."""

import os
import select
import socket
from pathlib import Path

import pytest

from tests.faults.processes import wait_until
from tuner.execution.lease import DriverLease, LeaseAddress, connect


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("l")


def signs(connection: socket.socket) -> int:
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    return dict(poller.poll(0)).get(connection.fileno(), 0)


def connected(lease: DriverLease) -> socket.socket:
    connection = connect(lease.address)
    assert connection is not None
    return connection


def test_a_lease_that_holds_shows_nothing(folder: Path) -> None:
    lease = DriverLease(folder)
    with connected(lease) as slot:
        assert signs(slot) == 0
        lease.close()


def test_the_end_of_the_driver_shows_as_a_hang_up(folder: Path) -> None:
    lease = DriverLease(folder)
    with connected(lease) as slot:
        lease.close()
        assert signs(slot) & select.POLLHUP


def test_an_interrupt_shows_without_a_hang_up_and_stays_for_the_next_guardian(folder: Path) -> None:
    lease = DriverLease(folder)
    with connected(lease) as first, connected(lease) as second:
        lease.interrupt()
        lease.interrupt()  # a second Ctrl-C changes nothing
        for slot in (first, second, first):
            assert signs(slot) == select.POLLIN
        lease.close()


def test_a_slot_that_comes_after_the_interrupt_is_refused(folder: Path) -> None:
    lease = DriverLease(folder)
    lease.interrupt()
    with pytest.raises(ConnectionRefusedError):
        connect(lease.address)
    lease.close()


def test_an_interrupt_survives_a_slot_that_died(folder: Path) -> None:
    lease = DriverLease(folder)
    connected(lease).close()
    with connected(lease) as alive:
        lease.interrupt()
        assert signs(alive) == select.POLLIN
        lease.close()


def test_another_machine_has_no_lease(folder: Path) -> None:
    lease = DriverLease(folder)
    assert connect(LeaseAddress("another boot", lease.address.path)) is None
    assert connect(LeaseAddress(lease.address.machine, str(folder / "nowhere"))) is None
    lease.close()


def test_a_process_that_the_driver_forks_does_not_keep_the_lease_alive(folder: Path) -> None:
    lease = DriverLease(folder)
    with connected(lease) as slot:
        lease._accept_waiting()
        gate, opener = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(opener)
            os.read(gate, 1)
            os._exit(0)
        lease.close()
        assert wait_until(lambda: signs(slot) & select.POLLHUP, timeout_s=5)
        os.close(opener)
        os.close(gate)
        os.waitpid(child, 0)
