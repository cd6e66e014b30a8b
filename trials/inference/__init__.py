"""Serving a trained model: engines, precisions, layout, and quality measured on what was timed."""
