"""The schema. Structured values are JSON text, so that both kinds of database give back the very same values.

Everything that grows is reached by an index, and the fingerprint of the machine, the same for nearly every
measurement, is kept once.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = 2
"""Raised with every change of the tables below. Records of an older version are brought up to this one by the
steps in ``upgrades.py``; those of a newer one are refused, never guessed at."""

NAME_LENGTH = 200
"""The longest name of a study, in characters."""

_TIME = String(32)  # ISO 8601, UTC, microseconds: sorts as text and means the same everywhere

metadata = MetaData()

schema = Table("tuner_schema", metadata, Column("version", Integer, nullable=False))

studies = Table(
    "tuner_study",  # one row per generation of a study
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(NAME_LENGTH), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("created_at", _TIME, nullable=False),
    Column("updated_at", _TIME, nullable=False),
    Column("file_text", Text, nullable=False),
    Column("file_path", Text, nullable=False),
    Column("definition", Text, nullable=False),
    Column("objectives", Text, nullable=False),
    Column("constraints", Text, nullable=False),
    Column("bounds", Text),  # NULL until the baseline is known
    Column("reference_point", Text),
    Column("rejected", Text, nullable=False, default="{}"),
    Column("notes", Text, nullable=False, default="{}"),
    Column("stopped_because", Text),
    UniqueConstraint("name", "generation"),
)

trials = Table(
    "tuner_trial",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("study_id", ForeignKey(studies.c.id), nullable=False),
    Column("number", Integer, nullable=False),
    Column("config", Text, nullable=False),  # in the order in which the parameters were given
    Column("config_digest", String(64), nullable=False),  # of config_key, which is too long for an index
    Column("proposed_by", Text, nullable=False),
    Column("reused_from", Integer),
    Column("forecast", Text),  # what the sampler's model expected; NULL where it had none (since version 2)
    UniqueConstraint("study_id", "number"),
    UniqueConstraint("study_id", "config_digest"),
)

environments = Table(
    "tuner_environment",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("body", Text, nullable=False),
)

examples = Table(
    "tuner_examples",  # apart, since they are large and seldom read
    metadata,
    Column("id", Integer, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

measurements = Table(
    "tuner_measurement",
    metadata,
    Column("id", Integer, primary_key=True),  # ascending in the order of the starts
    Column("measurement_id", String(32), nullable=False, unique=True),
    Column("trial_id", ForeignKey(trials.c.id), nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("seed", Text, nullable=False),  # text: a seed may need more than 64 bits
    Column("owner", Text, nullable=False),
    Column("log_dir", Text, nullable=False),
    Column("started_at", _TIME, nullable=False),
    Column("ended_at", _TIME),
    Column("outcome", String(32)),  # NULL while it runs
    Column("failure_kind", String(32)),
    Column("is_discarded", Boolean, nullable=False, default=False),
    Column("round_number", Integer),
    Column("body", Text),  # metrics, phases, proof, facts, warnings, message
    Column("environment_digest", ForeignKey(environments.c.digest)),
    Column("examples_id", ForeignKey(examples.c.id)),
    Index("tuner_measurement_of_trial", "trial_id"),
)

claims = Table(
    "tuner_claim",  # which process runs which study now
    metadata,
    Column("study", String(NAME_LENGTH), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("claimed_at", _TIME, nullable=False),
)
