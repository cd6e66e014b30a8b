"""Fills the templates; every text of the user's is escaped."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def page(template: str, **values: Any) -> str:
    """The text of a page."""
    return _environment().get_template(template).render(**values)


def plotly_script() -> Markup:
    """Plotly's own script, to be put into a page: it then works without a network."""
    return Markup(files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8"))


def script_json(value: Any) -> Markup:
    """A value as a script's literal; no ``<`` is left that could end the script."""
    text = json.dumps(value, allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dashboards"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["script_json"] = script_json
    return environment
