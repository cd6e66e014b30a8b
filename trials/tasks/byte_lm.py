"""A byte-level transformer language model on the text of Python's own standard library."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

BYTES = 256
TRAIN_BYTES, HELD_OUT_BYTES = 6_000_000, 50_000
HELD_OUT_SHARE = 20  # one file in twenty
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


class ByteLM:
    """Predicts the next byte of ``.py`` files; whole files are held out. ``width`` is a multiple of
    ``heads``. With ``experts`` (0: none) each block's feed-forward network is a mixture, of which a byte uses one.
    """

    metrics = ("val_loss_nats", "perplexity")
    divided_by = {  # noqa: RUF012 - read from the source as it stands: sizes that a degree must divide
        "tensor_parallel_degree": "heads",
        "pipeline_parallel_degree": "depth",
        "expert_parallel_degree": "experts",
    }

    def __init__(
        self,
        *,
        learning_rate: float = 1e-3,
        width: int = 256,
        depth: int = 4,
        heads: int = 4,
        context_length: int = 128,
        weight_decay: float = 0.01,
        experts: int = 0,
    ):
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.width, self.depth, self.heads, self.experts = width, depth, heads, experts
        self.tokens_per_sample = context_length

    def model(self) -> nn.Module:
        """A decoder with pre-normalisation and learned positions."""
        return Decoder(self.width, self.depth, self.heads, self.tokens_per_sample, self.experts)

    def pipeline_stages(self, model: nn.Module, count: int) -> list[nn.Module]:
        """Even runs of blocks; the first also embeds, the last also gives the logits."""
        assert isinstance(model, Decoder)
        edges = [len(model.blocks) * number // count for number in range(count + 1)]
        return [
            Stage(model, model.blocks[begin:end], is_first=begin == 0, is_last=end == len(model.blocks))
            for begin, end in pairwise(edges)
        ]

    def spread_experts(
        self, model: nn.Module, rank: int, degree: int, new_exchange: Callable[[], Any]
    ) -> list[nn.Parameter]:
        """Each mixture keeps its run of experts."""
        mixtures = [module for module in model.modules() if isinstance(module, Mixture)]
        return [parameter for mixture in mixtures for parameter in mixture.keep(rank, degree, new_exchange())]

    def train_data(self) -> Tensor:
        """Windows of ``context_length + 1`` bytes, one after the other."""
        return _windows(_text(is_held_out=False, at_most=TRAIN_BYTES), self.tokens_per_sample)

    def validation_data(self) -> Tensor:
        """Windows of files that are never trained on."""
        return _windows(_text(is_held_out=True, at_most=HELD_OUT_BYTES), self.tokens_per_sample)

    def schedule(self, progress: float) -> float:
        """A short linear rise, then a linear fall to a tenth."""
        return min(1.0, progress / 0.05 + 0.05) * (1 - 0.9 * progress)

    def loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        """Mean cross-entropy per byte."""
        return F.cross_entropy(*_logits_and_targets(model, batch))

    def score(self, model: nn.Module, batch: Tensor) -> dict[str, Tensor]:
        """Mean cross-entropy of each window."""
        losses = F.cross_entropy(*_logits_and_targets(model, batch), reduction="none")
        return {"val_loss_nats": losses.view(len(batch), -1).mean(1)}

    def summary(self, scores: dict[str, Tensor]) -> dict[str, float]:
        """Perplexity per byte."""
        return {"perplexity": scores["val_loss_nats"].mean().exp().item()}


class Decoder(nn.Module):
    """Bytes (batch, time) -> logits (batch, time, 256)."""

    def __init__(self, width: int, depth: int, heads: int, context_length: int, experts: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(BYTES, width)
        self.position = nn.Parameter(torch.randn(context_length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, experts) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, BYTES, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the byte after each position."""
        hidden = self.embedding(tokens) + self.position[: tokens.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        logits: Tensor = self.head(self.norm(hidden))
        return logits


class Stage(nn.Module):
    """A run of a decoder's blocks: bytes or hidden states in, hidden states or logits out."""

    def __init__(self, whole: Decoder, blocks: nn.ModuleList, *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.blocks = blocks
        self.start = Start(whole.embedding, whole.position) if is_first else nn.Identity()
        self.end = nn.Sequential(whole.norm, whole.head) if is_last else nn.Identity()

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, time) or (batch, time, width) -> (batch, time, width or 256)."""
        hidden = self.start(hidden)
        for block in self.blocks:
            hidden = block(hidden)
        logits_or_hidden: Tensor = self.end(hidden)
        return logits_or_hidden


class Start(nn.Module):
    """Bytes (batch, time) -> embedded, with their positions (batch, time, width)."""

    def __init__(self, embedding: nn.Embedding, position: nn.Parameter) -> None:
        super().__init__()
        self.embedding, self.position = embedding, position

    def forward(self, tokens: Tensor) -> Tensor:
        """The first hidden states."""
        hidden: Tensor = self.embedding(tokens) + self.position[: tokens.shape[1]]
        return hidden


class Block(nn.Module):
    """Causal attention and a feed-forward network, each added to what came in."""

    def __init__(self, width: int, heads: int, experts: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        with torch.no_grad():  # drawn as all queries, keys and values; each head's three lie together
            drawn = self.qkv.weight.view(3, heads, -1, width)
            self.qkv.weight.copy_(drawn.transpose(0, 1).reshape(3 * width, width))
        self.out = nn.Linear(width, width, bias=False)
        self.feed: nn.Module = Mixture(width, experts) if experts else feed_forward(width)

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, time, width) -> the same shape."""
        batch, time, width = hidden.shape
        # heads outermost, and as many as there are: a tensor-parallel rank has some of them, each whole
        parts = self.qkv(self.norm_attention(hidden)).view(batch, time, -1, 3, width // self.heads)
        query, key, value = parts.permute(3, 0, 2, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(batch, time, -1))
        fed: Tensor = self.feed(self.norm_feed(hidden))
        return hidden + fed


def feed_forward(width: int) -> nn.Sequential:
    """Out to four times the width and back."""
    return nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
    )


class Mixture(nn.Module):
    """Feed-forward networks of which each position uses the likeliest one, scaled by its probability (Switch
    Transformer, arXiv 2101.03961, without capacity limit and balancing loss).
    """

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(feed_forward(width) for _ in range(experts))
        self.exchange: Any = None  # set where experts are spread over processes

    def keep(self, rank: int, degree: int, exchange: Any) -> list[nn.Parameter]:
        """Keep one of ``degree`` equal runs of the experts; tokens for the others go through ``exchange``."""
        own = len(self.experts) // degree
        self.experts = self.experts[rank * own : (rank + 1) * own]
        self.exchange = exchange
        return list(self.experts.parameters())

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, time, width) -> the same shape."""
        tokens = hidden.flatten(0, 1)
        probability, choice = self.router(tokens).softmax(-1).max(-1)
        order = choice.argsort(stable=True)
        counts = choice.bincount(minlength=self.router.out_features)
        mixed = self._run(tokens[order], counts)
        results = torch.empty_like(mixed).index_copy(0, order, mixed)
        scaled: Tensor = (results * probability[:, None]).view_as(hidden)
        return scaled

    def _run(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """Tokens sorted by expert, and how many each has -> their results, in the same order."""
        if self.exchange is None:
            return self._apply_experts(tokens, counts[None])
        arrived, received = self.exchange.there(tokens, counts)
        results: Tensor = self.exchange.back(self._apply_experts(arrived, received))
        return results

    def _apply_experts(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """``counts`` (sources, own experts): tokens come source by source, and within one expert by expert."""
        parts: tuple[Tensor, ...] = torch.split(tokens, counts.flatten().tolist())
        return torch.cat([self.experts[i % len(self.experts)](part) for i, part in enumerate(parts)])


def _logits_and_targets(model: nn.Module, batch: Tensor) -> tuple[Tensor, Tensor]:
    tokens = batch.long()
    logits = model(tokens[:, :-1])
    return logits.reshape(-1, BYTES).float(), tokens[:, 1:].reshape(-1)


def _text(is_held_out: bool, at_most: int) -> bytes:
    """Files of the standard library joined, in an order that mixes topics and is the same everywhere."""
    root = Path(sysconfig.get_paths()["stdlib"])
    names = [path.relative_to(root).as_posix() for path in _python_files(root)]
    parts: list[bytes] = []
    size = 0
    for digest, name in sorted((hashlib.md5(name.encode()).digest(), name) for name in names):
        if (digest[0] % HELD_OUT_SHARE == 0) is is_held_out and size < at_most:
            parts.append((root / name).read_bytes())
            size += len(parts[-1])
    return b"\n".join(parts)[:at_most]


def _python_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.suffix == ".py":
            yield path
        elif path.is_dir() and path.name not in _LEFT_OUT:
            yield from _python_files(path)


def _windows(text: bytes, length: int) -> Tensor:
    """Rows of ``length + 1`` bytes; the last byte of a row is the first of the next."""
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).unfold(0, length + 1, length)
