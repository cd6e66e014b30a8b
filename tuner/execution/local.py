"""Runs jobs on this machine without Ray: one thread per slot waits for its guardian."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from queue import SimpleQueue

from trials.contract import Measurement
from tuner.execution import guardian
from tuner.execution.lease import DriverLease
from tuner.execution.leftovers import run_folder
from tuner.execution.marks import driver_mark
from tuner.execution.placement import refuse_what_does_not_fit, usable_cores, usable_gpus
from tuner.execution.protocol import ExecutionError, Job, JobSource, Signal, Slots
from tuner.execution.supervisor import PROGRAM, Place, Supervisor

LOOK_S = 1.0  # how often must_stop is asked while trials run; more often would disturb what they measure


class LocalExecutor:
    """An executor (see ``protocol.Executor``) in this process."""

    def __init__(self, *, program: tuple[str, ...] = PROGRAM) -> None:
        self._program = program
        self._lease: DriverLease | None = None
        self._is_interrupted = threading.Event()

    def interrupt(self) -> None:
        """Cut what runs; safe in a signal handler."""
        self._is_interrupted.set()
        if self._lease:
            self._lease.interrupt()

    def run(self, source: JobSource, slots: Slots) -> None:
        """Run the source's jobs; see ``protocol.Executor``."""
        refuse_what_does_not_fit(slots, len(usable_cores()), len(usable_gpus()), "this machine")
        with ExitStack() as stack:
            self._lease = DriverLease(stack.enter_context(run_folder()))
            stack.callback(self._close)
            guardian.become_subreaper()
            stack.callback(guardian.become_subreaper, False)
            place = Place(driver_mark(), self._lease.address, slots.cpus, slots.gpus, self._program)
            free: SimpleQueue[Supervisor] = SimpleQueue()
            for _slot in range(slots.count):
                supervisor = Supervisor(place)
                stack.callback(supervisor.close)
                free.put(supervisor)
            pool = stack.enter_context(ThreadPoolExecutor(slots.count, thread_name_prefix="trial"))
            stack.callback(self._lease.interrupt)  # an exception of the source must not wait for what runs
            self._serve(source, slots.count, pool, free)

    def _serve(
        self, source: JobSource, count: int, pool: ThreadPoolExecutor, free: SimpleQueue[Supervisor]
    ) -> None:
        running: dict[Future[Measurement], Job] = {}
        is_finished = False
        while True:
            is_finished = is_finished or self._submit(source, count, pool, free, running)
            if not running:
                return
            for done in wait(running, timeout=LOOK_S, return_when=FIRST_COMPLETED).done:
                source.on_result(running.pop(done), done.result())
            if source.must_stop():
                self.interrupt()
            source.look()

    def _submit(
        self,
        source: JobSource,
        count: int,
        pool: ThreadPoolExecutor,
        free: SimpleQueue[Supervisor],
        running: dict[Future[Measurement], Job],
    ) -> bool:
        """Fill the free slots with what the source has now; True when it has no more."""
        while len(running) < count and not self._is_interrupted.is_set() and not source.must_stop():
            job = source.next_job(len(running))
            if isinstance(job, Signal):
                if job is Signal.WAIT and not running:
                    raise ExecutionError("the study waits for a result while nothing runs")
                return job is Signal.FINISHED
            running[pool.submit(_run_on_free_slot, free, job)] = job
        return self._is_interrupted.is_set()

    def _close(self) -> None:
        if self._lease:
            self._lease.close()
        self._lease = None


def _run_on_free_slot(free: SimpleQueue[Supervisor], job: Job) -> Measurement:
    supervisor = free.get()
    try:
        return supervisor.run(job.spec)
    finally:
        free.put(supervisor)
