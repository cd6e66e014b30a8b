"""Where a records file lies: a file shared over a network cannot be locked reliably."""

from __future__ import annotations

import re
from pathlib import Path

_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"}
    | {"wekafs", "fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
)
_MOUNTS = Path("/proc/self/mountinfo")


def is_network_filesystem(path: str | Path, mounts: str | None = None) -> bool:
    """True where ``path`` (which need not exist) lies on a file system of another machine.

    SQLite's write-ahead log needs memory shared by all who open the file, and locks that hold: neither is
    sure there. ``mounts`` replaces the text of ``/proc/self/mountinfo``. False where that cannot be read.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return False
    resolved = Path(path).resolve()
    return _kind_of(resolved, mounts) in _NETWORK


def _kind_of(path: Path, mounts: str) -> str:
    """The kind of the file system mounted closest above ``path``; of two at one place the later one."""
    deepest, kind = -1, ""
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields.split()[4]))
        if path.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, kind = len(point.parts), rest.split()[0]
    return kind
