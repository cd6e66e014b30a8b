"""A finished measurement beside its trial's log, for a driver that dies before it has recorded it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from trials.contract import SPEC_FILE, FailureKind, Measurement, TrialSpec, write_atomically

MEASUREMENT_FILE = "measurement.json"


def keep_measurement(spec: TrialSpec, measurement: Measurement) -> None:
    """Write the measurement, as judged, into the trial's folder. One that was cut is not worth keeping."""
    if measurement.failure_kind is FailureKind.INTERRUPTED:
        return
    with contextlib.suppress(OSError):  # a full disk: the driver still gets the measurement handed back
        write_atomically(spec.trial_dir / MEASUREMENT_FILE, measurement.to_json())


def kept_measurement(trial_dir: Path, measurement_id: str) -> tuple[TrialSpec, Measurement] | None:
    """Spec and measurement that lie in the folder; None unless both do and are of ``measurement_id``."""
    try:
        spec = TrialSpec.from_json((trial_dir / SPEC_FILE).read_text(encoding="utf-8"))
        measurement = Measurement.from_json((trial_dir / MEASUREMENT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # it never ended, or its machine is not this one: it is measured again
    return (spec, measurement) if spec.measurement_id == measurement_id else None
