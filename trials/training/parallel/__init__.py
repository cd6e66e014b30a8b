"""Trials of several processes: launching the ranks, and the forms of parallelism they train in."""
