from __future__ import annotations

from pathlib import Path

import pytest

from tuner.records.filesystem import is_network_filesystem

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw,relatime shared:2 master:1 - nfs4 server:/home rw
31 30 0:41 / /home/me/scratch rw - ext4 /dev/sdb rw
32 22 0:42 / /mnt/with\040space rw - cifs //server/share rw
33 22 0:43 / /over rw - nfs server:/x rw
34 22 0:44 / /over rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/tuner.db", False),
        ("/home/me/tuner.db", True),
        ("/home/me/not/there/yet.db", True),
        ("/home/me/scratch/tuner.db", False),
        ("/homes/tuner.db", False),
        ("/mnt/with space/tuner.db", True),
        ("/over/tuner.db", False),
    ],
)
def test_the_mount_closest_above_decides(path: str, expected: bool) -> None:
    assert is_network_filesystem(path, MOUNTS) is expected


def test_a_local_folder_is_not_one(tmp_path: Path) -> None:
    assert is_network_filesystem(tmp_path / "tuner.db", None) is False
