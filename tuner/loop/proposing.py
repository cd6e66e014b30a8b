"""Which configuration is tried next: first what the user wants tried, then what the baseline's own time points to,
then what the sampler proposes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tuner.search.protocol import Proposal, Sampler
from tuner.space.space import Config, config_key


class Proposer:
    """``rejections`` are counted in the records already; ``count`` adds newer ones, by rule."""

    def __init__(
        self,
        sampler: Sampler,
        try_first: Iterable[Config],
        rejections: Mapping[str, int],
        count: Callable[[Mapping[str, int]], None],
    ) -> None:
        self._sampler = sampler
        self._wishes = deque(Proposal(config, "try_first") for config in try_first)
        self._rejections = dict(rejections)
        self._count = count

    def add(self, wishes: Iterable[Proposal]) -> None:
        """More to be tried before the sampler is asked."""
        self._wishes.extend(wishes)

    def next(self, number: int, known: Collection[str], pending: Sequence[Config]) -> Proposal | None:
        """A configuration whose key is not ``known``, for trial ``number``; None when nothing is left."""
        while self._wishes:
            wish = self._wishes.popleft()
            if config_key(wish.config) not in known:
                return wish
        proposal = self._sampler.ask(number, pending)
        self._count_rejections()
        return proposal

    def _count_rejections(self) -> None:
        """Only what is new: a sampler rebuilt from the records counts once more what it counted before."""
        counted = self._rejections
        more = {rule: n - counted.get(rule, 0) for rule, n in self._sampler.rejected().items()}
        more = {rule: n for rule, n in more.items() if n > 0}
        if more:
            self._count(more)
            counted.update({rule: counted.get(rule, 0) + n for rule, n in more.items()})
