"""Asks the server that was loaded, for those who judge its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trials.contract import FailureKind, TrialFailure
from trials.serving import event_loop
from trials.serving.apis import Api, api
from trials.serving.apis.base import MODEL
from trials.serving.client import Target, ask_all
from trials.serving.exchange import Answer, BadAnswer, Prompt
from trials.serving.window import read_answer


@dataclass(frozen=True)
class Asker:
    """``ask`` sends questions to the server and returns its answers in their order."""

    base_url: str
    path: str
    api_name: str
    model: str
    headers: Mapping[str, str]
    timeout_s: float
    at_once: int

    def ask(
        self, prompts: Sequence[Prompt], *, api_name: str | None = None, path: str | None = None
    ) -> list[Answer]:
        """Every answer; TrialFailure ``crash`` where one is none, since quality is judged on all or not at all.

        Another protocol or path may be named, for example to read log-probabilities.
        """
        spoken: Api = api(api_name or self.api_name)(self.model, {})
        target = Target(self.base_url + (path or self.path).replace(MODEL, self.model), self.headers)
        bodies = [(prompt, spoken.body(prompt)) for prompt in prompts]
        answers = []
        for number, exchange in enumerate(
            event_loop.run(ask_all(target, bodies, self.at_once, self.timeout_s))
        ):
            try:
                answers.append(read_answer(exchange, spoken))
            except BadAnswer as bad:
                raise TrialFailure(
                    FailureKind.CRASH,
                    f"quality: question {number} of {len(prompts)} had no answer: {bad.kind} ({bad.message})",
                ) from None
        return answers

    def values(self, bodies: Sequence[Mapping[str, Any]], path: str) -> list[Any]:
        """The JSON that comes back for bodies posted as they are."""
        fields = {"model": self.model} if self.model else {}
        prompts = [Prompt(body={**fields, **body}) for body in bodies]
        return [answer.value for answer in self.ask(prompts, api_name="http", path=path)]


def read_rows(path: str, needed: Sequence[str]) -> list[Mapping[str, Any]]:
    """The objects of a file of JSON lines; TrialFailure names the first line that lacks a key."""
    rows = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as problem:
            raise TrialFailure(FailureKind.CRASH, f"{path}:{number}: is not JSON: {problem}") from None
        missing = [key for key in needed if not isinstance(row, dict) or key not in row]
        if missing:
            raise TrialFailure(FailureKind.CRASH, f"{path}:{number}: has no {', '.join(missing)}")
        rows.append(row)
    if not rows:
        raise TrialFailure(FailureKind.CRASH, f"{path} holds no line")
    return rows
