"""Shipped tasks, to train and to serve, on data that every machine has."""
