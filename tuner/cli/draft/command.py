"""The draft for a command line: its flags with today's values become parameters in braces."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trials.command.template import BRACES, BUILT_IN
from trials.metrics import Key
from trials.training.task_source import TaskProblem, locate
from trials.workloads import workload
from tuner.cli.draft.metrics import keys_in
from tuner.cli.draft.ranges import around, of_any_number, written
from tuner.cli.draft.text import Draft, Parameter, study_name
from tuner.cli.errors import CliError
from tuner.cli.hardware import Hardware
from tuner.space.yaml_source import read_scalar

EXAMPLE_RUN = (
    "{python} -m trials.tasks.plain_script --batch-size 64 --lr 1e-3 --precision fp32 --out metrics.json"
)
_SHELL = re.compile(r"[|;&<>]+.*|\d?>.*|.*`.*|.*\$(?!\{).*")
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL | re.ASCII)
_FLAG = re.compile(r"(-{1,2}[A-Za-z_][\w.-]*)(?:=(.*))?|([A-Za-z_][\w.]*)=(.*)", re.DOTALL | re.ASCII)
_PYTHON = re.compile(r"python[0-9.]*")
_NUMBER = re.compile(r"-?[0-9.]+(?:[eE][-+]?[0-9]+)?")
_RESULT = re.compile(r"out|metric|result|report|save|log|json")
_SWITCHES = {
    "compile",
    "amp",
    "bf16",
    "fp16",
    "tf32",
    "gradient_checkpointing",
    "channels_last",
    "pin_memory",
}
_TAKEN = {"min", "max", "value", "expr", "choices", "and", "or", "not", "in"}  # words of the language itself
_SAME_FOR_ALL = re.compile(
    r"epoch|step|iter|sample|seed|rank|port|device|gpu|class|interval|every|node|version"
)


@dataclass
class _Flag:
    """One argument, or one option with its value: ``text`` is written before a value that is joined to it."""

    words: list[str]
    name: str = ""
    value: str | None = None
    joined: str = ""

    def with_value(self, value: str) -> list[str]:
        """The words with another value."""
        return [f"{self.joined}{value}"] if self.joined else [self.words[0], value]


def command_draft(run: str, folder: Path, hardware: Hardware) -> Draft:
    """The draft of a space file in ``folder`` for a program that is run from where we are."""
    variables, words = _split(run)
    flags, source = list(_flags(words[1:])), _source(words)
    parameters = _parameters(flags, hardware)
    result = next((flag for flag in flags if _is_result(flag)), None)
    arguments = [_line(flag, parameters, result) for flag in flags]
    section: dict[str, Any] = {"run": [_interpreter(words[0]), *arguments]}
    if result is not None and result.value is not None:
        key = "lines" if result.value.endswith(".jsonl") else "file"
        section["metrics"] = {key: _in_trial_dir(result.value)}
    if folder.resolve() != Path.cwd():
        section["working_directory"] = os.path.relpath(Path.cwd(), folder)
    if variables:
        section["env"] = variables
    _, problems = workload("command").resolve(section, folder)
    if problems:
        raise CliError(f"--run: {problems[0].message}; {problems[0].way_out}")
    metrics = keys_in(source) if result is not None and source is not None else []
    name = study_name(source.stem if source else Path(words[0]).stem)
    return Draft(
        study=name,
        about=f"Which flags of {name} are best?",
        workload=_lines(section),
        parameters=parameters,
        metrics=metrics,
        memory=(Key.PEAK_RSS_GIB if hardware.gpus else Key.PEAK_MEMORY_GIB, hardware.memory_gib),
        doubts=_doubts(metrics),
        budget="{trials: 20, wall_time: 30 min, trial_timeout: 5 min}",
    )


def _split(run: str) -> tuple[dict[str, str], list[str]]:
    """The variables set in front, and the words; CliError for what only a shell understands."""
    try:
        words = shlex.split(run)
    except ValueError as problem:
        raise CliError(f"--run {run}: {problem}; quote it as for a shell") from problem
    shell = next((word for word in words if _SHELL.fullmatch(word)), None)
    if shell is not None:
        raise CliError(f"--run: {shell!r} is for a shell; give one program, or put the line into a script")
    unknown = [name for word in words for name in BRACES.findall(word) if name not in BUILT_IN]
    if unknown:
        raise CliError(
            f"--run: today's value of {{{unknown[0]}}} is not known; write the line as you run it today"
        )
    variables = {}
    while words and (found := _VARIABLE.fullmatch(words[0])):
        variables[found[1]] = found[2]
        words.pop(0)
    if not words:
        raise CliError(
            '--run names no program; write it as you run it today: --run "python train.py --lr 1e-3"'
        )
    return variables, words


def _flags(words: list[str]) -> Iterator[_Flag]:
    rest = iter([*words, None])
    word = next(rest)
    while word is not None:
        following = next(rest)
        found = _FLAG.fullmatch(word)
        if not found:
            yield _Flag([word])
        elif found[2] is not None or found[3]:
            name, value = (found[1], found[2]) if found[1] else (found[3], found[4])
            yield _Flag([word], _parameter_name(name), value, word[: len(word) - len(value)])
        elif following is not None and (not following.startswith("-") or _NUMBER.fullmatch(following)):
            yield _Flag([word, following], _parameter_name(word), following)
            following = next(rest)
        else:
            yield _Flag([word], _parameter_name(word))
        word = following


def _parameters(flags: list[_Flag], hardware: Hardware) -> dict[str, Parameter]:
    """The flags that the name tells how to vary; where there is none, every number that may be varied."""
    times = Counter(flag.name for flag in flags)
    usable = [flag for flag in flags if times[flag.name] == 1 and flag.name not in {*_TAKEN, *BUILT_IN}]

    def by_name(flag: _Flag) -> str | None:
        return around(flag.name, _today(flag), hardware.cores, hardware.precisions)

    def by_value(flag: _Flag) -> str | None:
        return None if _SAME_FOR_ALL.search(flag.name) else of_any_number(_today(flag))

    found = _varied(usable, by_name) or _varied(usable, by_value)
    for flag in usable:
        if flag.value is None and flag.name in _SWITCHES:
            domain = f'{{choices: {{with: {written(flag.words[0])}, without: ""}}}}'
            found[flag.name] = Parameter(domain, "with")
    if not found:
        raise CliError(
            "--run has no flag to tune; name some with the values that you use today: --batch-size 32 --lr 1e-3"
        )
    return found


def _varied(flags: list[_Flag], domain_of: Callable[[_Flag], str | None]) -> dict[str, Parameter]:
    domains = ((flag, domain_of(flag)) for flag in flags if flag.value is not None)
    return {flag.name: Parameter(domain, _today(flag)) for flag, domain in domains if domain is not None}


def _today(flag: _Flag) -> Any:
    """The value as a number where it is one, else as the text that it is."""
    value = flag.value or ""
    return read_scalar(value) if _NUMBER.fullmatch(value) else value


def _line(flag: _Flag, parameters: dict[str, Parameter], result: _Flag | None) -> str | list[str]:
    """One argument, or a list of them that comes or goes whole."""
    if flag is result and flag.value is not None:
        words = flag.with_value(_in_trial_dir(flag.value))
    elif flag.name == "seed" and flag.value is not None:
        words = flag.with_value("{seed}")  # the runs of one configuration differ in it
    elif flag.name in parameters:
        words = flag.with_value(f"{{{flag.name}}}") if flag.value is not None else [f"{{{flag.name}}}"]
    else:
        words = flag.words
    return words if len(words) > 1 else words[0]


def _lines(section: dict[str, Any]) -> list[str]:
    """The section as YAML; each flag on a line of its own."""
    lines = ["kind: command", "run:"]
    for part in section["run"]:
        text = written(part) if isinstance(part, str) else f"[{', '.join(map(written, part))}]"
        lines.append(f"  - {text}")
    for key in ("working_directory", "env"):
        value = section.get(key)
        if value is not None:
            pairs = value if isinstance(value, dict) else {}
            flow = ", ".join(f"{written(name)}: {written(text)}" for name, text in pairs.items())
            lines.append(f"{key}: {{{flow}}}" if pairs else f"{key}: {written(value)}")
    if "metrics" in section:
        ((key, path),) = section["metrics"].items()
        return [*lines, f"metrics: {{{key}: {written(path)}}}"]
    return [
        *lines,
        "# What the program reports, besides its wall_time_s: a JSON file of it, or numbers in its output.",
        '# metrics: {file: "{trial_dir}/metrics.json"}   # and above: [--out, "{trial_dir}/metrics.json"]',
        "# metrics: {patterns: {val_loss_nats: 'loss = ([0-9.]+)'}}",
    ]


def _doubts(metrics: list[str]) -> list[str]:
    if metrics:
        return []
    return [
        "As long as wall_time_s is the only objective, the fastest wins whatever it learns: add what the program",
        "reports, under workload.metrics and here; metrics that nobody knows as {metric: f1, direction: maximize}.",
    ]


def _is_result(flag: _Flag) -> bool:
    return bool(flag.value and flag.value.endswith((".json", ".jsonl")) and _RESULT.search(flag.name))


def _in_trial_dir(path: str) -> str:
    return path if BRACES.search(path) else f"{{trial_dir}}/{Path(path).name}"


def _parameter_name(flag: str) -> str:
    return re.sub(r"\W+", "_", flag.lstrip("-"), flags=re.ASCII).strip("_")


def _interpreter(program: str) -> str:
    """``{python}`` where the word means the interpreter that runs tuner, or none at all."""
    if not _PYTHON.fullmatch(program):
        return program
    found = shutil.which(program)
    is_ours = found is None or Path(found).parent == Path(sys.executable).parent
    return "{python}" if is_ours else program


def _source(words: list[str]) -> Path | None:
    """The Python file that the command runs; CliError where it names one that is not there."""
    if words[1:2] == ["-m"] and len(words) > 2:
        try:
            return locate(words[2])
        except TaskProblem as problem:
            raise CliError(f"--run: {problem.message}; {problem.way_out}") from problem
    script = next((word for word in words if word.endswith(".py")), None)
    if script is None or BRACES.search(script):
        return None
    if not Path(script).is_file():
        raise CliError(f"--run: there is no file {script} here; begin tuner init where you run the program")
    return Path(script)
