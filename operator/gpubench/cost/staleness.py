# SPDX-License-Identifier: Apache-2.0
"""Whether a price is too old to go by. The day that it is judged on is given: nothing here knows what day it is."""

import datetime

from gpubench.api.pool import GpuPool, GpuPoolSpec

STALE_AFTER_DAYS = 90


def as_of(pool: GpuPoolSpec) -> datetime.date | None:
    """The day on which the pool's price, or what was paid for an own node, was read; None without either."""
    read = pool.price or pool.ownership
    return None if read is None else datetime.date.fromisoformat(read.as_of)


def age_days(pool: GpuPoolSpec, *, on: datetime.date) -> int | None:
    """How old its price is on a day: less than 0 where it was read later; None without a price."""
    read = as_of(pool)
    return None if read is None else (on - read).days


def is_stale(pool: GpuPoolSpec, *, on: datetime.date) -> bool:
    """Whether its price is older than 90 days on that day."""
    age = age_days(pool, on=on)
    return age is not None and age > STALE_AFTER_DAYS


def of_study(pool: GpuPool, *, planned_at: str) -> str | None:
    """What a reader of a study's costs must know of the price's age on the day of the plan; None where it was fresh."""
    planned = datetime.datetime.fromisoformat(planned_at).date()
    if not is_stale(pool.spec, on=planned):
        return None
    return (
        f"stale price: that of {pool.name} was read on {as_of(pool.spec)}, {age_days(pool.spec, on=planned)} days "
        "before the plan: read it again"
    )
