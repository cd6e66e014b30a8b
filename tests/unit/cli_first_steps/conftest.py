from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.cli.conftest import tuner, workplace
from tuner.cli.hardware import Gpu, Hardware

__all__ = ["tuner", "workplace"]

H200 = Gpu("NVIDIA H200", 139.8, 9.0)
T4 = Gpu("Tesla T4", 15.0, 7.5)
LAPTOP = Hardware("Some CPU", ("avx2",), cores=8, memory_gib=16.0)
SERVER = Hardware("Some Xeon", ("avx2", "avx512f", "amx_bf16"), cores=2, memory_gib=24.0)
ONE_CORE = Hardware("Some CPU", (), cores=1, memory_gib=0.9)
WITH_H200 = Hardware("Some Xeon", ("amx_bf16",), cores=16, memory_gib=128.0, gpus=1, gpu=H200)
WITH_TWO_T4 = Hardware("Some Xeon", ("avx2",), cores=16, memory_gib=64.0, gpus=2, gpu=T4)
WITHOUT_DRIVER = Hardware("Some Xeon", ("avx2",), cores=4, memory_gib=64.0, gpus=1)
MACHINES = (LAPTOP, SERVER, ONE_CORE, WITH_H200, WITH_TWO_T4, WITHOUT_DRIVER)


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Hardware], None]:
    """Pretend to be on another machine."""

    def pretend(hardware: Hardware) -> None:
        monkeypatch.setattr("tuner.cli.hardware.this_machine", lambda: hardware)

    return pretend
