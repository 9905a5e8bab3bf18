# SPDX-License-Identifier: Apache-2.0
"""A study on two pools, one of which is fast and cheap, within limits that may end it early."""

import random
from typing import Any

import builders
from world import World, world

REPEATS = 6
_RATES = {"fast": 2000.0, "slow": 1000.0}
_PRICES = {"fast": "3.60", "slow": "7.20"}  # a tenth of a cent for a second of a node, and two tenths


def study(limits: dict[str, Any]) -> World:
    """The study, of which each repeat holds its node for some seconds."""
    block = builders.block(pools=list(_RATES), workers=[1])
    spec = builders.spec(block, measure={"repeats": {"min": REPEATS}}, limits=limits)
    pools = [
        builders.pool(name, price={"perNodeHour": price, "currency": "USD", "asOf": "2023-11-01"})
        for name, price in _PRICES.items()
    ]
    plan = builders.plan(spec, *pools)
    pool_of = {trial.id: plan.points[trial.point].key.pool for trial in plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        rate = _RATES[pool_of[trial]] * random.Random(trial).uniform(0.99, 1.01)
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, rate=rate))

    return world(builders.study(spec), plan, fate=fate)
