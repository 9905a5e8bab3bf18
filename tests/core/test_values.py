# SPDX-License-Identifier: Apache-2.0
"""The small things that everything stands on: quantities, durations, the catalogues, the ledger's text."""

import re
from decimal import Decimal
from typing import get_args

import pytest

import builders
from gpubench import checksum, metrics, units, values, workloads
from gpubench.api import sweep
from gpubench.scheduler import ledger
from gpubench.scheduler.ledger import Ledger, Outcome


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("1h30m", 5400), ("2h0m5s", 7205)])
def test_durations_are_read(text: str, seconds: int) -> None:
    assert units.duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "1d", "m", "-5s", "1s1m", "1.5h"])
def test_what_is_no_duration_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="such as 1h30m, 15m or 90s"):
        units.duration_seconds(text)


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("1s", 1.0), ("1s500ms", 1.5), ("2m", 120.0)])
def test_lengths_of_windows_are_read(text: str, seconds: float) -> None:
    assert units.window_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "1h", "ms", "0.5s", "500ms1s", "1000ms", "1m500"])
def test_what_is_no_windows_length_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="such as 500ms, 1s or 1s500ms"):
        units.window_seconds(text)


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59.6, "1m00s"), (750, "12m30s"), (3900, "1h05m")])
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert units.duration_text(seconds) == text


def test_quantities_keep_their_unit() -> None:
    assert units.times("80Gi", 8) == "640Gi"
    assert units.times("500m", 3) == "1500m"
    assert units.times("0.5", 3) == "1.5"
    assert units.times("10", 10) == "100"
    assert units.quantity_value("1Ki") == Decimal(1024)
    assert units.processors("500m") == Decimal("0.5")


def test_moments_go_to_text_and_back() -> None:
    assert units.rfc3339(units.epoch_seconds("2026-11-01T12:00:05Z")) == "2026-11-01T12:00:05Z"
    assert units.epoch_seconds("2026-11-01T12:00:05.250000Z") % 1 == 0.25


def test_metric_names_are_prometheus_names_with_units_at_the_end() -> None:
    found = [metric.name for metric in metrics.CATALOGUE]
    assert len(found) == len(set(found))
    for metric in metrics.CATALOGUE:
        assert re.fullmatch(r"gpubench_[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is metrics.Kind.COUNTER)
        assert len(metric.labels) == len(set(metric.labels))


def test_the_schema_and_the_catalogue_name_the_same_workloads() -> None:
    assert get_args(sweep.WorkloadName) == (*workloads.NAMES, "Custom")


def test_an_unknown_workload_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(LookupError, match="did you mean 'resnet50'"):
        workloads.find("resnet-50")


def test_the_ledger_reads_back_and_an_end_is_never_written_over() -> None:
    begun = builders.attempt(outcome=None, reason=None, sentence=None, ended_at=None)
    done = begun.model_copy(update={"outcome": Outcome.SUCCEEDED, "result": builders.result()})
    late = begun.model_copy(update={"outcome": Outcome.FAILED})
    after = Ledger().with_records([begun]).with_records([done]).with_records([late, begun])
    assert after.records == (done,)
    assert ledger.from_entries([ledger.to_entries(after.records)]) == after


def test_what_json_has_no_number_for_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        values.Interval(mean=float("nan")).to_json()


def test_an_entry_that_cannot_be_read_is_an_error_and_not_a_lost_count() -> None:
    with pytest.raises(ValueError, match="AttemptRecord"):
        ledger.from_entries([{"t.1": checksum.seal('{"trial":"t"}')}])
