"""What is wrong with an export."""

from __future__ import annotations


class TargetError(Exception):
    """No such target, or it does not work for this study; the message is one line."""
