# SPDX-License-Identifier: Apache-2.0
"""How a figure is computed, in a line that people read: the same one with names and with the numbers put in.

Each stands beside the function that computes the figure, which is its one home; `gpubench explain` prints it. A test
evaluates the lines and holds them against their functions, so that none says what is not done.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Formula:
    """Arithmetic with a name in braces for each number, and who published it or says so."""

    template: str
    source: str

    @property
    def text(self) -> str:
        """With the names of its numbers."""
        return self.template.replace("{", "").replace("}", "").replace("_", " ")

    def filled(self, **numbers: str) -> str:
        """With the numbers themselves; a name that has none is an error."""
        return self.template.format_map(numbers)
