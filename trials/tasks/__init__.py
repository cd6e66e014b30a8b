"""Shipped training tasks, on data that every machine has."""
