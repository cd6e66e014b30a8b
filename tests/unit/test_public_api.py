"""What other programs may import."""

import subprocess
import sys

import tuner


def test_the_public_names_are_these_and_all_of_them_exist():
    assert sorted(tuner.__all__) == [
        "Constraint",
        "Objective",
        "Records",
        "RecordsError",
        "SpaceError",
        "StudyFile",
        "StudyResult",
        "TrialResult",
        "as_json",
        "judge",
        "load_study_file",
    ]
    for name in tuner.__all__:
        assert getattr(tuner, name).__module__.startswith("tuner.")


def test_importing_tuner_alone_imports_nothing_of_it():
    code = "import sys, tuner; print([m for m in sys.modules if m.startswith('tuner.')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
