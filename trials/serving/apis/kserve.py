"""KServe's open inference protocol v2 over HTTP (Triton, OpenVINO Model Server, TorchServe and others).

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from trials.serving.apis.base import encoded, parsed, quoted
from trials.serving.exchange import Answer, BadAnswer, Exchange, Prompt


class KServe:
    """Tensors in, tensors out. A prompt's body is the request (``{"inputs": [...]}``)."""

    name: ClassVar[str] = "kserve"
    path: ClassVar[str] = "/v2/models/{model}/infer"
    is_streaming: ClassVar[bool] = False
    reports_tokens: ClassVar[bool] = False

    def __init__(self, model: str, extra: Mapping[str, Any]) -> None:
        self._extra = dict(extra)

    def body(self, prompt: Prompt) -> bytes:
        """The request; a text becomes the one input ``text`` of type BYTES."""
        own = prompt.body
        if not isinstance(own, Mapping):
            own = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [prompt.text]}]}
        return encoded({**self._extra, **own})

    def read(self, exchange: Exchange) -> Answer:
        """``value`` maps each output's name to its data, flat as it comes."""
        found = parsed(exchange.body)
        outputs = found.get("outputs") if isinstance(found, Mapping) else None
        if not isinstance(outputs, list) or not outputs:
            raise BadAnswer("bad_answer", f"no outputs: {quoted(exchange.body)}")
        value: dict[str, Any] = {}
        for output in outputs:
            if not isinstance(output, Mapping) or not isinstance(output.get("data"), list):
                raise BadAnswer("bad_answer", f"an output without data: {quoted(exchange.body)}")
            value[str(output.get("name"))] = output["data"]
        return Answer(value=value)
