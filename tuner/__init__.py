"""Finds the training and inference configurations that no other measured configuration beats."""

__version__ = "0.1.0"
