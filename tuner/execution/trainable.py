"""The Ray actor of one slot: reused from job to job, it supervises and computes nothing itself."""

from __future__ import annotations

import os
import select
import threading
from typing import Any

import ray
from ray.tune import Trainable

from trials.contract import TrialSpec
from tuner.execution import guardian
from tuner.execution.classify import cut_before_it_ended
from tuner.execution.lease import LeaseAddress
from tuner.execution.supervisor import Place, Supervisor

RESULT_KEY = "measurement"


def place_config(place: Place) -> dict[str, Any]:
    """A slot's constants as plain values, which is all that Ray Tune should see."""
    return {
        "mark": place.mark,
        "lease": [place.lease.machine, place.lease.path],
        "cpus": place.cpus,
        "gpus": place.gpus,
        "program": list(place.program),
    }


def job_config(spec: TrialSpec) -> dict[str, Any]:
    """A job as plain values."""
    return {"spec": spec.to_json()}


class SlotActor(Trainable):  # type: ignore[misc]  # Ray Tune's classes are untyped for us
    """One step is one job; the next job resets the configuration instead of starting an actor (1 s)."""

    def setup(self, config: dict[str, Any]) -> None:
        """Take the slot's cores; from now on orphans of this process are its own to end."""
        guardian.become_subreaper()
        place = Place(
            mark=config["mark"],
            lease=LeaseAddress(*config["lease"]),
            cpus=config["cpus"],
            gpus=config["gpus"],
            program=tuple(config["program"]),
        )
        self._spec_text = config["spec"]
        self._supervisor: Supervisor | None = None
        try:
            self._supervisor = Supervisor(
                place, gpus=[str(gpu) for gpu in ray.get_gpu_ids()], owns_process=True
            )
        except ConnectionRefusedError:
            return  # the driver was interrupted, or is gone, while this actor started
        if self._supervisor.lease_fd >= 0:
            lease_fd = os.dup(self._supervisor.lease_fd)  # the supervisor closes its own at the end
            threading.Thread(target=_end_with, args=(lease_fd,), daemon=True).start()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next job."""
        self._spec_text = new_config["spec"]
        return True

    def step(self) -> dict[str, Any]:
        """Run the job; whatever happens, its measurement comes back."""
        if self._supervisor is None:
            measurement = cut_before_it_ended()
        else:
            measurement = self._supervisor.run(TrialSpec.from_json(self._spec_text))
        return {RESULT_KEY: measurement.to_json(), "done": True}

    def cleanup(self) -> None:
        """Give the slot's cores back."""
        if self._supervisor:
            self._supervisor.close()


def _end_with(lease_fd: int) -> None:
    """End this process when the driver ends: Ray itself would let it live for another 15 s."""
    poller = select.poll()
    poller.register(lease_fd, 0)  # hang-up is always reported; an interrupt's byte does not wake this
    poller.poll()
    os._exit(1)
