"""How the processes of one trial divide the work. Light: used by the checks, by the launcher and by the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

DEGREE_KNOBS = ("data_parallel_degree", "tensor_parallel_degree", "pipeline_parallel_degree")
"""Their product is the number of processes; experts are spread over the data-parallel ones."""


STAGES_PER_RANK = {"gpipe": 1, "1f1b": 1, "interleaved": 2}
"""Stages of a pipeline that each of its ranks holds, by schedule."""


class Place(NamedTuple):
    """Where a rank stands: its number in each direction, from 0."""

    pipeline: int
    data: int
    tensor: int


@dataclass(frozen=True)
class Layout:
    """The degrees of one configuration.

    ``shard_degree`` data-parallel ranks share one copy of what ``zero_stage`` 2 and 3 shard (hybrid sharding
    where they are fewer than all); ``expert_degree`` of them share one set of experts (neighbours, as shards are).
    """

    data_degree: int = 1
    tensor_degree: int = 1
    pipeline_degree: int = 1
    expert_degree: int = 1
    zero_stage: int = 0
    shard_degree: int = 1

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Layout:
        """Read the degrees of a configuration; what is not given is 1."""
        data, tensor, pipeline = (config.get(name) or 1 for name in DEGREE_KNOBS)
        expert = config.get("expert_parallel_degree") or 1
        shard = config.get("shard_degree") or (expert if expert > 1 else data)
        return cls(data, tensor, pipeline, expert, config.get("zero_stage") or 0, shard)

    @property
    def world_size(self) -> int:
        """Processes of the trial."""
        return self.data_degree * self.tensor_degree * self.pipeline_degree

    @property
    def is_sharded(self) -> bool:
        """True where parameters live as shards (ZeRO 2 and 3)."""
        return self.zero_stage >= 2

    def place(self, rank: int) -> Place:
        """Tensor ranks are neighbours, since they talk most; pipeline stages are furthest apart."""
        rank, tensor = divmod(rank, self.tensor_degree)
        pipeline, data = divmod(rank, self.data_degree)
        return Place(pipeline, data, tensor)
