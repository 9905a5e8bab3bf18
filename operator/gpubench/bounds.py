# SPDX-License-Identifier: Apache-2.0
"""Bounds of the numbers in records.

A user's own program may write anything: what is within these can be squared, summed and written as JSON.
"""

from typing import Annotated

from pydantic import Field

Figure = Annotated[float, Field(allow_inf_nan=False, ge=-1e100, le=1e100)]
Count = Annotated[int, Field(ge=0, le=10**18)]  # 10^18 nanoseconds are 31 years
Positive = Annotated[int, Field(gt=0, le=10**18)]
Share = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)]
