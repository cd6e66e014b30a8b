"""``tuner doctor``: what is usable here, and how to get the rest."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from tuner.cli.console import echo
from tuner.cli.errors import ExitCode
from tuner.cli.hardware import Hardware, this_machine
from tuner.cli.options import json_option
from tuner.cli.table import table, terminal_width
from tuner.cli.text import first_line, shown_number, styled

OK, MISSING, BROKEN = "ok", "missing", "broken"
_COLOURS = {OK: "32", MISSING: "33", BROKEN: "1;31"}
_PROBE_TIMEOUT_S = 60.0
_LEAST_DISK_GIB, _LEAST_SHARED_GIB = 1.0, 1.0
_SHOWN_PACKAGES = ("ray", "optuna", "mlflow", "sqlalchemy")
_EXTRA = re.compile(r"""extra == ["']([\w.-]+)["']""")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``missing`` is optional; with something ``broken`` no study can run."""

    name: str
    state: str
    found: str
    way_out: str = ""


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Say what hardware, number formats and packages are usable here, and how to get the others.

    The formats are measured, by short matrix products. Exit code 1 where something is broken that every study needs.
    """
    hardware = this_machine()
    checks = [*_machine(hardware), *_torch(hardware), *_compiler(), *_engines(hardware), *_packages()]
    is_usable = all(check.state != BROKEN for check in checks)
    if as_json:
        click.echo(json.dumps({"ok": is_usable, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        echo(_shown(checks))
    return ExitCode.DONE if is_usable else ExitCode.STUDY_FAILED


def _shown(checks: list[Check]) -> str:
    rows = [(c.state, c.name, f"{c.found}; {c.way_out}" if c.way_out else c.found) for c in checks]
    lines = table(rows, ("state", "what", "found"), terminal_width()).splitlines()
    words = (line.partition(" ") for line in lines)
    return "\n".join(
        styled(word, _COLOURS[word]) + gap + rest if word in _COLOURS else word + gap + rest
        for word, gap, rest in words
    )


def _machine(hardware: Hardware) -> Iterator[Check]:
    total = os.cpu_count() or hardware.cores
    of = "" if total == hardware.cores else f" of {total}"
    yield Check(
        "processor", OK, f"{hardware.cores}{of} cores, {hardware.cpu_model} {' '.join(hardware.cpu_flags)}"
    )
    yield Check("memory", OK, f"{hardware.memory_gib:.1f} GiB")
    disk = shutil.disk_usage(Path.cwd()).free / 2**30
    if disk < _LEAST_DISK_GIB:
        yield Check(
            "disk", BROKEN, f"{disk:.2f} GiB free in this folder", "free some, or work in another folder"
        )
    else:
        yield Check("disk", OK, f"{disk:.0f} GiB free in this folder")
    yield from _shared_memory()
    from tuner.records.filesystem import is_network_filesystem

    if is_network_filesystem(Path.cwd()):
        said = "this folder is on a network file system, where SQLite cannot lock"
        yield Check("records", MISSING, said, "give --records a local path, or a PostgreSQL URL")


def _shared_memory() -> Iterator[Check]:
    folder = Path("/dev/shm")
    size = shutil.disk_usage(folder).total / 2**30 if folder.is_dir() else 0.0
    if size < _LEAST_SHARED_GIB:
        said = f"{size:.2f} GiB in /dev/shm, through which loader workers hand batches over"
        yield Check("shared memory", MISSING, said, "keep loader_workers: 0, or: docker run --shm-size=8g")
    else:
        yield Check("shared memory", OK, f"{size:.1f} GiB in /dev/shm")


def _torch(hardware: Hardware) -> Iterator[Check]:
    """What the probe says, and whether the kernel caps the memory of a process for us."""
    found, is_capped = _probe(hardware)
    if is_capped:
        yield Check("memory cap", OK, "a limit of resources.memory is held by the kernel (cgroup)")
    else:
        said = "no cgroup may be made, so a trial's memory is looked at once a second"
        yield Check("memory cap", MISSING, said, "systemd-run --user --scope -p Delegate=yes tuner run ...")
    if isinstance(found, str):
        yield Check("torch", BROKEN, found, "pip install torch (https://pytorch.org/get-started/locally)")
        return
    yield Check("torch", OK, f"{found['torch']}, built for {found['built_for']}, {found['threads']} threads")
    yield _gpu(hardware, found)
    for name in ("fp32", "tf32", "bf16", "fp16"):
        yield _precision(name, found)


def _probe(hardware: Hardware) -> tuple[dict[str, Any] | str, bool]:
    """The probe's facts, or why it failed; and whether it ran in a memory cgroup of ours."""
    import trials
    from tuner.execution.guardian import MemoryCgroup

    path = os.pathsep.join(
        filter(None, (str(Path(trials.__file__).parents[1]), os.environ.get("PYTHONPATH")))
    )
    program = [sys.executable, "-P", "-m", "trials.measurement.probe"]
    with subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        group = MemoryCgroup.around(process.pid, int(hardware.memory_gib * 2**30))
        try:
            output, errors = process.communicate(timeout=_PROBE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            output, errors = "", f"no answer within {_PROBE_TIMEOUT_S:.0f} s"
        finally:
            process.kill()
            process.wait()
            if group is not None:
                group.remove()
    try:
        facts: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        last = errors.strip().rpartition("\n")[2] or f"it ended with {process.returncode}"
        return f"does not work: {first_line(last)}", group is not None
    return facts, group is not None


def _gpu(hardware: Hardware, found: Mapping[str, Any]) -> Check:
    if found["devices"]:
        first = found["devices"][0]
        return Check("gpu", OK, f"{len(found['devices'])} x {first['name']}, {first['memory_gib']} GiB")
    if hardware.gpus == 0:
        return Check("gpu", MISSING, "none, trials run on the CPU", "needs an NVIDIA GPU and its driver")
    name = hardware.gpu.name if hardware.gpu else "a device"
    return Check(
        "gpu",
        BROKEN,
        f"{hardware.gpus} x {name}, and PyTorch ({found['torch']}, built for {found['built_for']}) cannot use it",
        'install the CUDA build (https://pytorch.org/get-started/locally), or hide it: CUDA_VISIBLE_DEVICES=""',
    )


def _precision(name: str, found: Mapping[str, Any]) -> Check:
    if name in found["refused"]:
        return Check(name, MISSING, first_line(found["refused"][name]), "leave it out of precision")
    rate, base = found["tflops"][name], found["tflops"].get("fp32")
    said = f"{shown_number(rate)} TFLOP/s on the {'GPU' if found['device'] == 'cuda' else 'CPU'}"
    if name == "fp32" or not base:
        return Check(name, OK, said)
    gain = rate / base
    return Check(name, OK, f"{said}, {gain:.1f} x fp32{'' if gain > 1.1 else ': nothing to gain in speed'}")


def _compiler() -> Iterator[Check]:
    wanted = os.environ.get("CXX") or "g++"
    path = shutil.which(wanted) or shutil.which("clang++")
    if path:
        yield Check("compiler", OK, f"{path}, for compile: true")
    else:
        yield Check("compiler", MISSING, f"no {wanted}, which compile: true needs", "apt-get install g++")


def _engines(hardware: Hardware) -> Iterator[Check]:
    """The engines of inference, with the number formats that each has here; none is imported."""
    from trials.inference.engines import engine_entry, engine_names, missing_package, rejection

    world = {"cpus": hardware.cores, "gpus": hardware.gpus}
    for name in engine_names():
        entry = engine_entry(name)
        absent = missing_package({"engine": name})
        if absent is not None:
            yield Check(f"engine {name}", MISSING, absent.message, absent.way_out)
            continue
        configs = [{"engine": name, "precision": p} for p in entry.choices.get("precision", ())]
        usable = [c["precision"] for c in configs if rejection(c, world, entry.takes[0]) is None]
        lacking = next((problem for c in configs if (problem := missing_package(c))), None)
        way_out = f"for more: {lacking.way_out}" if lacking else ""
        yield Check(f"engine {name}", OK, ", ".join(usable), way_out)


def _packages() -> Iterator[Check]:
    """The packages of our own metadata: those that every study needs, then the optional ones by their extra."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        yield Check(
            "packaging",
            BROKEN,
            "is not installed, and ray, optuna and mlflow need it",
            "pip install packaging",
        )
        return
    try:
        wanted = [Requirement(text) for text in importlib.metadata.requires("tuner") or ()]
    except importlib.metadata.PackageNotFoundError:
        yield Check(
            "tuner", BROKEN, "is not installed, so nothing says which packages it needs", "pip install -e ."
        )
        return
    for requirement in wanted:
        extra = _EXTRA.search(str(requirement.marker or ""))
        if extra is not None and extra[1] == "dev":
            continue
        version = _version(requirement.name)
        fits = version is not None and requirement.specifier.contains(version, prereleases=True)
        said = f"{version or 'not installed'}{'' if fits else f', {requirement.specifier} is wanted'}"
        if fits and (extra is not None or requirement.name in _SHOWN_PACKAGES):
            yield Check(requirement.name, OK, said)
        elif not fits:
            name = requirement.name if extra is None else f"{requirement.name} ({extra[1]})"
            requirement.marker = None
            yield Check(name, BROKEN if extra is None else MISSING, said, f"pip install '{requirement}'")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
