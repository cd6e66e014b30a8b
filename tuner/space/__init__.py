"""What the user writes: a YAML space file becomes a StudyFile, or a list of problems with file and line.

``file.py`` reads the file and is the place to start; ``space.py`` and ``model.py`` are what comes out.
"""

from tuner.space.definition import definition_differences, study_definition
from tuner.space.errors import Problem, SpaceError
from tuner.space.expressions import Expression, ExpressionError, parse_expression
from tuner.space.file import load_study_file
from tuner.space.model import StudyFile
from tuner.space.space import Config, Parameter, Rejection, Rule, Space, config_key

__all__ = [
    "Config",
    "Expression",
    "ExpressionError",
    "Parameter",
    "Problem",
    "Rejection",
    "Rule",
    "Space",
    "SpaceError",
    "StudyFile",
    "config_key",
    "definition_differences",
    "load_study_file",
    "parse_expression",
    "study_definition",
]
