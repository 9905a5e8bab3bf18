# SPDX-License-Identifier: Apache-2.0
"""What a condition is, for the status of every kind."""

from typing import Literal

from pydantic import Field

from gpubench.api import rules
from gpubench.values import FrozenModel


class Condition(FrozenModel):
    """A condition in the form of metav1.Condition."""

    type: str = Field(max_length=64, description="Name of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(max_length=64, description="One word for programs.")
    message: str = Field(max_length=1024, description="One sentence for people.")
    last_transition_time: rules.Time = Field(description="When status last changed.")
    observed_generation: int | None = Field(None, description="Generation of the spec that this speaks of.")
