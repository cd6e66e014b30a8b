"""``tuner export --to artifact``: the winner's built model, with a loader that runs without tuner."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trials.contract import LOG_FILE, Measurement, Outcome, Purpose, TrialSpec
from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode

ARTIFACT = "artifact"
PROGRAM = "trials.inference.build"
BUILT_FOLDER = "artifact"  # beside the spec, by trials.inference.build
DOCUMENT_FILE = "tuner.yaml"
KIND = "inference"


def artifact_folder(output: str | None) -> Path:
    """Where to write; refused before any work."""
    if output in (None, "-"):
        raise CliError("--to artifact writes a folder; say which with -o: -o served_model")
    folder = Path(str(output))
    if not folder.parent.is_dir():
        raise CliError(f"-o {output}: the folder {folder.parent} does not exist; create it first")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CliError(f"-o {output}: is there already; name a new folder")
    return folder


def refuse_other_kinds(study: str, kind: str) -> None:
    """CliError for a study that serves nothing."""
    if kind != KIND:
        raise CliError(
            f"--to artifact: study '{study}' is of kind {kind}; only kind {KIND} builds an artifact"
        )


def export_artifact(document: Mapping[str, Any], text: str, folder: Path) -> None:
    """Build the document's configuration into the folder, with the document's text. CliError where it fails.

    What was built so far goes when it fails, or is interrupted; the log of a failure stays.
    """
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    echo("building the artifact", err=True)
    try:
        measurement = _built(document, work)
    except BaseException:
        shutil.rmtree(work)
        raise
    built = work / "trial" / BUILT_FOLDER
    if measurement.outcome is not Outcome.COMPLETE:
        shutil.rmtree(built, ignore_errors=True)
        raise CliError(
            f"--to {ARTIFACT}: {measurement.failure_kind}: {measurement.message}; "
            f"log: {work / 'trial' / LOG_FILE}",
            ExitCode.STUDY_FAILED,
        )
    (built / DOCUMENT_FILE).write_text(text, encoding="utf-8")
    if folder.exists():
        folder.rmdir()
    built.rename(folder)
    shutil.rmtree(work)
    if (instances := document["verify"]["parameters"].get("instances") or 1) > 1:
        echo(
            f"note: measured as {instances} instances; for that throughput load it in {instances} processes, each on "
            "cores of its own",
            err=True,
        )


def _built(document: Mapping[str, Any], work: Path) -> Measurement:
    from tuner.aside import run_aside
    from tuner.execution.protocol import ExecutionError
    from tuner.verification import slot_of

    basis = document["verify"]
    spec = TrialSpec(
        study=document["study"],
        trial_number=document["trial"],
        measurement_id=ARTIFACT,
        purpose=Purpose.VERIFY,
        workload=basis["workload"],
        config=basis["parameters"],
        seed=basis["seed"],
        trial_dir=(work / "trial").resolve(),
        cache_dir=(work / "cache").resolve(),
    )
    try:
        return run_aside(PROGRAM, spec, slot_of(document))
    except ExecutionError as problem:
        raise CliError(str(problem), ExitCode.STUDY_FAILED) from problem
