# SPDX-License-Identifier: Apache-2.0
"""Other prices change what a study costs and nothing that was measured; prices that say nothing of it are refused."""

from decimal import Decimal
from typing import Any

import pytest

import builders
import measured
import studies_cut_short
from gpubench.analysis import audit, repricing
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import AmountInterval, Basis, PointResult
from gpubench.api.pool import GpuPool
from gpubench.plan.plan import Plan

RATES = {0: (1000.0, 1010.0, 990.0), 1: (1900.0, 1890.0, 1910.0)}
#: Of the stored amounts, each of which is rounded.
LAST_PLACE = Decimal("0.0000000015")


def priced(name: str = "cpu", *, per_node_hour: str = "0.72", currency: str = "USD", **spec: Any) -> GpuPool:
    price = {"per_node_hour": per_node_hour, "currency": currency, "as_of": "2026-11-02"}
    return builders.pool(name, price=price, **spec)


def costs(plan: Plan) -> list[Decimal | None]:
    found = measured.results(plan, RATES)
    return [None if (cost := per_million(one)) is None else Decimal(cost.mean) for one in found]


def per_million(result: PointResult) -> AmountInterval | None:
    return None if result.cost is None else result.cost.per_million_samples


def without_money(results: tuple[PointResult, ...]) -> list[PointResult]:
    return [one.model_copy(update={"cost": None}) for one in results]


def test_a_doubled_price_doubles_each_cost_and_changes_nothing_that_was_measured() -> None:
    plan = builders.plan()
    doubled = repricing.repriced(plan, [priced()])
    before, after = costs(plan), costs(doubled)
    assert before == [Decimal("0.100000000"), Decimal("0.105263158")], "0.36 an hour: 100 samples for a thousandth cent"
    assert after == [Decimal("0.200000000"), Decimal("0.210526316")]
    for old, new in zip(measured.results(plan, RATES), measured.results(doubled, RATES), strict=True):
        for end in ("low", "high"):
            cheap, dear = (Decimal(getattr(per_million(one), end)) for one in (old, new))
            assert abs(dear - 2 * cheap) <= LAST_PLACE
            assert dear > cheap > 0
    assert without_money(measured.results(plan, RATES)) == without_money(measured.results(doubled, RATES))


def test_all_but_the_money_of_a_pool_stays_as_it_was_planned() -> None:
    plan = builders.plan()
    file = priced(max_nodes=1, exclusive_nodes=False, capacity_type="Spot", accelerator=None)
    [pool] = repricing.repriced(plan, [file]).pools
    assert (pool.spec.max_nodes, pool.spec.exclusive_nodes) == (4, True)
    assert (pool.spec.capacity_type, pool.spec.price) == (file.spec.capacity_type, file.spec.price)
    assert repricing.repriced(plan, [file]).as_measured() == plan


def test_an_own_machine_may_stand_in_place_of_a_rented_one() -> None:
    ownership = {
        "purchase": "7300", "lifetime_months": 10, "hours_per_month": 730, "currency": "USD", "as_of": "2026-11-02",
    }  # fmt: skip
    owned = builders.pool(price=None, ownership=ownership)
    doubled, _ = costs(repricing.repriced(builders.plan(), [owned]))
    assert doubled == Decimal("0.277777778"), "7300 over 10 months of 730 hours is 1 an hour"


def test_a_pool_that_another_one_stands_for_follows_with_its_own_price() -> None:
    spot = priced("spot", per_node_hour="0.10", measured_by={"pool": "cpu"})
    plan = builders.plan(builders.spec(builders.block(pools=["cpu", "spot"])), builders.pool(), spot)
    dearer = priced("spot", per_node_hour="0.20")
    before, after = measured.results(plan, RATES), measured.results(repricing.repriced(plan, [dearer]), RATES)
    assert [one.basis for one in after] == [Basis.MEASURED, Basis.MEASURED, Basis.REPRICED, Basis.REPRICED]
    assert before[:2] == after[:2], "whose price was not given anew"
    for old, new in zip(before[2:], after[2:], strict=True):
        cheap, dear = per_million(old), per_million(new)
        assert cheap is not None
        assert dear is not None
        assert abs(Decimal(dear.mean) - 2 * Decimal(cheap.mean)) <= LAST_PLACE
        assert new.throughput == old.throughput


def test_a_file_without_any_pool_of_the_study_is_refused_with_the_pools_of_both() -> None:
    [sentence] = repricing.problems(builders.plan(), [priced("aws")])
    assert "the pools here are aws, those of the benchmark cpu" in sentence


def test_a_price_of_nodes_of_another_size_is_refused() -> None:
    [sentence] = repricing.problems(builders.plan(), [priced(slots_per_node=8)])
    assert sentence == (
        "GpuPool cpu has 8 slots on a node here, and 1 in the benchmark: a price of other nodes says nothing about it; "
        "give that of a node with 1"
    )


def test_a_price_in_another_currency_needs_an_exchange_rate_of_the_study() -> None:
    dollars = builders.plan(builders.spec(currency="USD"))
    [sentence] = repricing.problems(dollars, [priced(currency="EUR")])
    assert "the price of cpu is in EUR" in sentence
    assert "no rate from EUR to USD; give the price in USD" in sentence
    rate = {"from": "EUR", "rate": "2", "asOf": "2023-11-01"}
    exchanging = builders.plan(builders.spec(currency="USD", exchangeRates=[rate]))
    euros = [priced(per_node_hour="0.18", currency="EUR")]
    assert not list(repricing.problems(exchanging, euros))
    assert costs(repricing.repriced(exchanging, euros)) == costs(exchanging), "half of it at twice the rate"


def test_a_plan_is_priced_by_the_pools_that_it_was_re_priced_with_and_by_no_others() -> None:
    plan = repricing.repriced(builders.plan(), [priced()])
    assert repricing.repriced(plan, [priced(), priced("aws")]).pools == plan.pools
    assert repricing.repriced(plan, [priced(per_node_hour="0.73")]).pools != plan.pools


# --- what was left out for its price ----------------------------------------------------------------------------------


@pytest.mark.parametrize("per_node_hour", ["0.0036", "3600"], ids=["cheap", "dear"])
def test_other_prices_neither_begin_a_finished_study_again_nor_leave_out_more_of_it(per_node_hour: str) -> None:
    here = studies_cut_short.study({"budget": "0.22"})
    before = here.run()
    assert any(result.omission is not None for result in before.results)
    plan = repricing.repriced(
        here.plan, [priced("fast", per_node_hour="3.78"), priced("slow", per_node_hour=per_node_hour)]
    )
    after = repricing.status(plan, here.ledger(), here.study.spec, before)
    assert (after.phase, after.conditions, after.trials) == (before.phase, before.conditions, before.trials)
    for old, new in zip(before.results, after.results, strict=True):
        same = {"state", "omission", "reason", "values", "warnings"}
        assert old.model_dump(include=same) == new.model_dump(include=same)
    assert before.spent is not None
    assert after.spent is not None
    assert after.spent.amount != before.spent.amount
    stored = FullStatus.model_validate(after.to_wire())
    assert list(audit.of_status(plan, here.ledger(), here.study.spec, stored, words=True)) == []
    assert list(audit.of_plan(plan, here.study.spec)) == []
    back = repricing.repriced(plan, here.plan.pools)
    assert repricing.status(back, here.ledger(), here.study.spec, before) == before
