"""The space file of a recorded study, read again from its recorded text, and a configuration of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tuner.space.errors import Problems, Where
from tuner.space.file import OVERRIDE_MARK, read_study_file
from tuner.space.model import StudyFile
from tuner.space.parse_starts import read_guess
from tuner.space.space import Config
from tuner.space.yaml_source import Entry, Map, read_yaml


def read_recorded(
    text: str, path: Path, wanted: Mapping[str, str], *, cpus: int | None = None, gpus: int = 0
) -> tuple[StudyFile, Config]:
    """The study whose file was at ``path`` when its ``text`` was recorded, and the configuration with the
    ``wanted`` values (read as YAML); what they do not say is as in the baseline.

    ``cpus`` and ``gpus`` are as in ``load_study_file``. SpaceError with everything that is wrong.
    """
    body, overrides = _without_overrides(text)
    study, vocabulary = read_study_file(body, path, overrides, cpus=cpus, gpus=gpus)
    problems = Problems()
    node = _wanted_node(wanted, problems)
    problems.raise_if_any()
    config = read_guess("try", node, study.baseline, study.space, vocabulary, problems)
    problems.raise_if_any()
    return study, config


def _without_overrides(text: str) -> tuple[str, dict[str, str]]:
    """The file's own text, and the overrides that ``read_study_file`` added at its end."""
    body, *added = text.split(OVERRIDE_MARK)
    pairs = (entry.partition("=") for entry in added)
    return body, {key: value for key, _, value in pairs}


def _wanted_node(wanted: Mapping[str, str], problems: Problems) -> Map:
    entries = []
    for key, text in wanted.items():
        where = Where(f"{key}={text}", None)
        value = read_yaml(text, where, problems)
        if value is not None:
            entries.append(Entry(key, key, where, value))
    return Map(entries, Where(" ".join(f"{key}={text}" for key, text in wanted.items()), None))
