"""What a study found: records in, verdicts out. Pure functions, no database.

`judge` turns a `StudyRecord` into a `StudyResult`; `recommend` picks from its front; `finalists` says what to
confirm next; `as_json` is the public form.
"""

from tuner.results.finalists import contenders, finalists
from tuner.results.judging import judge, judge_trial
from tuner.results.model import LimitResult, NearestMiss, Recommendation, StudyResult, TrialResult
from tuner.results.patterns import FailurePattern, FailureTable, Influence
from tuner.results.plain import SCHEMA_VERSION, as_json
from tuner.results.recommend import recommend

__all__ = [
    "SCHEMA_VERSION",
    "FailurePattern",
    "FailureTable",
    "Influence",
    "LimitResult",
    "NearestMiss",
    "Recommendation",
    "StudyResult",
    "TrialResult",
    "as_json",
    "contenders",
    "finalists",
    "judge",
    "judge_trial",
    "recommend",
]
