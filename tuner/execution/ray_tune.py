"""Runs a study's jobs on Ray Tune: it places and runs, and decides nothing."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tuner.execution.cluster import connected, quiet_ray
from tuner.execution.feed import Feed
from tuner.execution.lease import DriverLease
from tuner.execution.leftovers import run_folder
from tuner.execution.marks import driver_mark
from tuner.execution.protocol import JobSource, Slots
from tuner.execution.supervisor import PROGRAM, Place


class RayTuneExecutor:
    """An executor (see ``protocol.Executor``) on a Ray of our own, or on the cluster at ``address``.

    ``address`` is ``host:port`` or ``auto``; the driver must run on a machine of that cluster. Nothing may
    import ray before ``run`` (what silences it is read at import), and ``run`` must be called in the main
    thread.
    """

    def __init__(self, address: str | None = None, *, program: tuple[str, ...] = PROGRAM) -> None:
        self._address = address
        self._program = program
        self._lease: DriverLease | None = None
        self._feed: Feed | None = None
        self._is_interrupted = False

    def interrupt(self) -> None:
        """Cut what runs; safe in a signal handler."""
        self._is_interrupted = True
        if self._feed:
            self._feed.interrupt()

    def run(self, source: JobSource, slots: Slots) -> None:
        """Run the source's jobs; see ``protocol.Executor``."""
        with ExitStack() as stack:
            folder = stack.enter_context(run_folder())
            self._lease = DriverLease(folder)
            stack.callback(self._lease.close)
            stack.enter_context(quiet_ray(is_own=self._address is None))
            stack.enter_context(connected(self._address, slots, folder))
            self._serve(source, slots, folder)

    def _serve(self, source: JobSource, slots: Slots, folder: Path) -> None:
        from tuner.execution.searcher import forget, register

        assert self._lease is not None
        self._feed = Feed(source, cut=self._lease.interrupt)
        if self._is_interrupted:
            return
        place = Place(driver_mark(), self._lease.address, slots.cpus, slots.gpus, self._program)
        number = register(self._feed, place)
        try:
            _tuner(number, slots, folder).fit()
        finally:
            self._feed.hand_back_the_rest()
            forget(number)
        if self._feed.problem:
            raise self._feed.problem


def _tuner(number: int, slots: Slots, folder: Path) -> Any:
    from ray import tune
    from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig

    from tuner.execution.searcher import FeedSearcher, FeedStopper, Forgetting
    from tuner.execution.trainable import SlotActor

    return tune.Tuner(
        tune.with_resources(SlotActor, tune.PlacementGroupFactory([_bundle(slots)])),
        tune_config=TuneConfig(
            search_alg=FeedSearcher(number),
            num_samples=-1,
            max_concurrent_trials=slots.count,
            reuse_actors=True,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=RunConfig(
            name="tune",
            storage_path=str(folder),
            stop=FeedStopper(number),
            callbacks=[Forgetting()],
            verbose=0,
            log_to_file=False,
            failure_config=FailureConfig(max_failures=0),
            # at its end a class without checkpoints would fail, and the actor would not be reused
            checkpoint_config=CheckpointConfig(checkpoint_at_end=False),
        ),
    )


def _bundle(slots: Slots) -> dict[str, float]:
    """The same for every trial: Ray Tune reuses an actor only under the very same request."""
    bundle: dict[str, float] = {"CPU": slots.cpus}
    if slots.gpus:
        bundle["GPU"] = slots.gpus
    if slots.accelerator:
        bundle[f"accelerator_type:{slots.accelerator}"] = 0.001
    return bundle
