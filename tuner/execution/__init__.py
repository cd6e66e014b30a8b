"""Where trials run: the Ray Tune adapter, placement, the supervisor of a trial's process tree."""
