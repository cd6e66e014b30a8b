"""Sections that are plain settings (budget, search, resources, ...): one table that parser and schema both
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tuner.space.errors import Problems, known_names, shown
from tuner.space.units import UnitError, gibibytes, seconds
from tuner.space.yaml_source import Map, Node, Scalar, plain

MOST = 1_000_000
"""Trials, or runs of any kind: a study of more would take years, and its records gigabytes."""
MOST_CORES = 10_000
LARGEST_SEED = 4_000_000_000
"""Repeats count on from it, and the random generators of trials take 32 bits."""
MOST_MEMORY_TIB = 1024

STORE_SERVERS = ("http", "https", "databricks")
STORE_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
"""Schemes of the addresses where MLflow keeps its data."""
_STORES = "use sqlite:///mlflow.db, postgresql://..., mysql://... or http://..."

LEAST_MEMORY_MIB = 16
"""``python -m trials`` with a command workload takes 15 MiB (Python 3.11, measured); torch takes 20 times that."""


class FieldType(NamedTuple):
    """How a setting is read (ValueError or UnitError says why not) and what an editor may offer."""

    read: Callable[[Any], Any]
    schema: dict[str, Any]


@dataclass(frozen=True)
class Field:
    """One setting: its key in the file, the attribute it becomes, and what it means."""

    key: str
    type: FieldType
    help: str
    attribute: str = ""
    low: int | None = None
    high: int | None = None

    @property
    def name(self) -> str:
        """The attribute of the model."""
        return self.attribute or self.key


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnitError("is not a whole number; write one without quotes")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UnitError("is neither true nor false; write one of them")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UnitError("is not a text; write a word")
    if not value.isprintable():
        raise UnitError("holds a character that cannot be printed; delete it")
    return value


def _store(value: Any) -> str | None:
    """MLflow's address. A file store is refused here, or MLflow would refuse it after the baseline ran."""
    if value is None:
        return None
    text = _text(value)
    scheme, found, rest = text.partition("://")
    if text == "databricks":
        return text
    if not found or scheme == "file":
        raise UnitError(
            "is a file store, which MLflow refuses; "
            "write sqlite:///mlflow.db, a server's http address, or null for none"
        )
    if scheme.partition("+")[0] not in (*STORE_SERVERS, *STORE_DATABASES):
        raise UnitError(f"is no store that MLflow knows; {_STORES}")
    if scheme.startswith("sqlite") and rest.lstrip("/").partition("?")[0] in ("", ":memory:"):
        raise UnitError("has no file; write sqlite:///mlflow.db")
    return text


def _memory(value: Any) -> float:
    """GiB. Less than the trial's own interpreter needs would end every trial before its work begins."""
    size_gib = gibibytes(value)
    if size_gib * 1024 < LEAST_MEMORY_MIB:
        raise UnitError(
            f"is less than a trial's bare interpreter takes; write {LEAST_MEMORY_MIB} MiB or more"
        )
    if size_gib > MOST_MEMORY_TIB * 1024:
        raise UnitError(f"is more than any machine has; write {MOST_MEMORY_TIB} TiB or less")
    return size_gib


def _count_or_all(value: Any) -> int | None:
    if value == "all":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UnitError("is not a number of folders; write 0 or more, or all")
    if value > MOST:
        raise UnitError(f"must be at most {MOST:,}; write all")
    return value


INTEGER = FieldType(_integer, {"type": "integer"})
TRUTH = FieldType(_truth, {"type": "boolean"})
TEXT = FieldType(_text, {"type": "string"})
DURATION = FieldType(
    seconds, {"type": "string", "pattern": "^[0-9.]+ *(ms|s|min|h|d)( .*)?$", "examples": ["30 min"]}
)
MEMORY = FieldType(_memory, {"type": "string", "pattern": "^[0-9.]+ *[KMGT]i?B$", "examples": ["6 GiB"]})
STORE = FieldType(_store, {"type": ["string", "null"], "examples": ["sqlite:///mlflow.db"]})
COUNT_OR_ALL = FieldType(
    _count_or_all, {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MOST}, {"const": "all"}]}
)

SECTIONS: dict[str, tuple[Field, ...]] = {
    "budget": (
        Field("trials", INTEGER, "configurations sent to run, the baseline included", low=1, high=MOST),
        Field("wall_time", DURATION, "the whole study, confirmation included", "wall_time_s"),
        Field("no_gain", INTEGER, "end after so many trials without gain beyond the noise", low=1, high=MOST),
        Field("trial_timeout", DURATION, "one trial is ended after this time", "trial_timeout_s"),
        Field("failures_in_a_row", INTEGER, "end after so many failed trials in a row", low=1, high=MOST),
    ),
    "search": (
        Field("sampler", TEXT, "who proposes configurations; auto picks by the space and the budget"),
        Field("seed", INTEGER, "the same seed proposes the same configurations", low=0, high=LARGEST_SEED),
        Field("concurrent_trials", INTEGER, "trials at once; more than one may disturb timings",
              low=1, high=MOST_CORES),
        Field("cut_short", TRUTH, "end trials that cannot reach the front any more (default: true)"),
    ),
    "resources": (
        Field("cpus", INTEGER, "cores of one trial (default: all / concurrent_trials)", low=1, high=MOST_CORES),
        Field("gpus", INTEGER, "GPUs of one trial (default: all / concurrent_trials)", low=0, high=MOST_CORES),
        Field("memory", MEMORY, "a trial that takes more is ended", "memory_gib"),
        Field("accelerator", TEXT, "the GPU model that a trial must get, for example H100"),
    ),
    "confirm": (
        Field("finalists", INTEGER, "members of the front that are measured again; 0: none", low=0, high=MOST),
        Field("repeats", INTEGER, "rounds of re-measuring", low=1, high=MOST),
        Field("baseline_repeats", INTEGER, "runs of the baseline, from which the noise is known", low=1, high=MOST),
    ),
    "keep": (
        Field("trial_folders", COUNT_OR_ALL,
              "folders of trials that stay besides the baseline's, the front's and failed ones (default: all)"),
    ),
    "tracking": (
        Field("mlflow", STORE, "MLflow's address; null switches MLflow off"),
        Field("experiment", TEXT, "MLflow's experiment (default: the study's name)"),
    ),
}  # fmt: skip


def read_section(name: str, node: Node, problems: Problems) -> dict[str, Any]:
    """The settings given in a section, by attribute; what is wrong is noted and left out."""
    fields = {field.key: field for field in SECTIONS[name]}
    if not isinstance(node, Map):
        example = SECTIONS[name][0].key
        problems.add(
            node.where, f"{name}={shown(plain(node))} is not a map", f"write {name}: {{{example}: ...}}"
        )
        return {}
    given: dict[str, Any] = {}
    report_unknown(node, fields, f"{name}.", problems)
    for entry in node.entries:
        field = fields.get(entry.key)
        if field is None:
            continue
        value = plain(entry.node)
        try:
            given[field.name] = _in_bounds(field, field.type.read(value))
        except UnitError as error:
            problems.add(entry.where, f"{name}.{entry.key}={shown(value)} {error}")
    return given


def _in_bounds(field: Field, value: Any) -> Any:
    if field.low is not None and value < field.low:
        raise UnitError(f"must be at least {field.low}; write {field.low} or more")
    if field.high is not None and value > field.high:
        raise UnitError(f"must be at most {field.high:,}; write {field.high} or less")
    return value


def report_unknown(node: Map, known: Iterable[str], prefix: str, problems: Problems) -> None:
    """Note every key that is not known, with the nearest one that is."""
    names = list(known)
    for entry in node.entries:
        if entry.key not in names:
            problems.add(entry.where, f"{prefix}{entry.key} is not known", known_names(entry.key, names))


def text_of(node: Node) -> str | None:
    """The text of a scalar that is one, else None."""
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None
