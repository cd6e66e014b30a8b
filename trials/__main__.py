"""``python -m trials spec.json``: run one trial and leave ``result.json`` beside its spec.

Exit status: 0 complete, 1 a typed failure (the result says which), 2 the spec cannot be read.
"""

import time

STARTED_AT = time.monotonic()  # first: the phase clocks start here

import os  # noqa: E402
import sys  # noqa: E402

from trials.runner import main  # noqa: E402

if __name__ == "__main__":
    status = main(sys.argv[1:], STARTED_AT)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the result is on disk; tearing down an interpreter with torch loaded takes 0.3 s
