"""``python -m trials.inference.build spec.json``: builds a configuration's artifact, and tries it out.

The artifact is left in ``artifact/`` beside the spec, with inputs and outputs to try it on.
"""

from __future__ import annotations

import sys
import time

from trials.context import TrialContext
from trials.contract import Measurement, Outcome
from trials.inference.artifact import SAMPLE_INPUTS, SAMPLE_OUTPUTS, try_out
from trials.inference.replica import Replica, places
from trials.inference.task import write_arrays

ARTIFACT_FOLDER = "artifact"
_SAMPLES = 8


def run(context: TrialContext) -> Measurement:
    """Build the engine of the spec's configuration and write it. ``facts`` say what and where."""
    spec = context.spec
    place = places(spec, {name: value for name, value in spec.config.items() if value is not None})[0]
    place.take()
    replica = Replica(spec, place, context.phase, context.phases)
    replica.load()
    folder = spec.trial_dir / ARTIFACT_FOLDER
    folder.mkdir()
    with context.phase("artifact_s"):
        written = replica.engine.artifact(folder)
        rows = _rows(replica)
        inputs = replica.served.evaluation.batch(range(rows), replica.served.padding.longest)
        outputs = replica.engine.run(inputs)
    write_arrays(folder / SAMPLE_INPUTS, inputs)
    write_arrays(folder / SAMPLE_OUTPUTS, outputs)
    proof = replica.describe()
    replica.close()
    with context.phase("try_out_s"):
        try_out(folder)
    return Measurement(
        Outcome.COMPLETE,
        proof=proof,
        facts={"files": [str(file) for file in written.files], "model_bytes": written.model_bytes},
    )


def _rows(replica: Replica) -> int:
    """As many samples as the engine takes: an engine of fixed shapes was built for one number."""
    settings = replica.served.settings
    wanted = settings.batch_size if settings.is_fixed else _SAMPLES
    return min(int(wanted), len(replica.served.evaluation))


if __name__ == "__main__":
    from trials.runner import main

    sys.exit(main(sys.argv[1:], time.monotonic(), run))
