"""``python -m trials.inference DESCRIPTOR``: a replica in a process of its own; ``fleet.py`` starts it."""

import os
import sys

from trials.inference.replica import main

if __name__ == "__main__":
    main(int(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # as in trials.__main__: tearing an interpreter down with engines loaded takes long
