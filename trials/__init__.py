"""Runs ONE configuration in its own process and measures it.

Nothing here knows that a search exists: ``python -m trials spec.json`` needs nothing of ``tuner``.
"""
