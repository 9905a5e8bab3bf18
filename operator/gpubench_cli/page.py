# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page that needs nothing else: no network, no script, no font of its own.

Jinja2 escapes every text; the template is `page.html.jinja`. Only what `plots` has drawn is taken as markup, and there
the texts have been escaped by the XML library. Must not happen: a reference to a place outside the page.
"""

from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from gpubench.report.document import Chart, Document
from gpubench.sanitize import printable
from gpubench_cli import plots

_TEMPLATE = "page.html.jinja"


def render(document: Document) -> str:
    """The whole page."""
    return printable(_template().render(document=document, drawn=_drawn)) + "\n"


def _drawn(chart: Chart) -> Markup:
    return Markup(plots.svg(chart))  # noqa: S704  # elements built by the XML library, no text of anybody's


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE)
