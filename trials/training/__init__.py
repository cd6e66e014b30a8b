"""Trains one configuration of a task, times it, proves what ran and measures what was learned."""
