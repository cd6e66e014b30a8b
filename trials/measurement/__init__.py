"""Clocks, steady state, statistics, memory, load and peaks: how a number is taken."""
