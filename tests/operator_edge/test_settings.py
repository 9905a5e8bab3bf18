# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from gpubench_operator import settings


def test_without_variables_there_are_defaults() -> None:
    loaded = settings.load({})
    assert (loaded.lease_seconds, loaded.lease_renew_seconds, loaded.lease_retry_seconds) == (15, 10, 2)
    assert loaded.watch_namespaces == ()


def test_two_processes_of_one_pod_have_two_identities() -> None:
    first, second = (settings.load({"POD_NAME": "operator-0"}).identity for _ in range(2))
    assert first.startswith("operator-0-")
    assert first != second


def test_a_list_is_separated_by_commas() -> None:
    assert settings.load({"GPUBENCH_WATCH_NAMESPACES": "a, b,"}).watch_namespaces == ("a", "b")


def test_the_lease_lies_in_the_pods_own_namespace() -> None:
    assert settings.load({"POD_NAMESPACE": "bench"}).lease_namespace == "bench"
    assert settings.load({"POD_NAMESPACE": "bench", "GPUBENCH_LEASE_NAMESPACE": "x"}).lease_namespace == "x"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GPUBENCH_WORKERS", "many"),
        ("GPUBENCH_WORKERS", "0"),
        ("GPUBENCH_METRICS_PORT", "70000"),
        ("GPUBENCH_LOG_LEVEL", "loud"),
        ("GPUBENCH_LEASE_SECONDS", "-1"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_itself(variable: str, value: str) -> None:
    with pytest.raises(settings.BadSetting, match=f"{variable}={value}"):
        settings.load({variable: value})


def test_a_lease_that_could_be_taken_before_its_holder_knows_is_refused() -> None:
    with pytest.raises(settings.BadSetting, match="GPUBENCH_LEASE_SECONDS"):
        settings.load({"GPUBENCH_LEASE_SECONDS": "5"})


def test_a_misspelt_variable_is_refused() -> None:
    with pytest.raises(settings.BadSetting, match="GPUBENCH_WORKER is no setting"):
        settings.load({"GPUBENCH_WORKER": "3"})


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in settings.Settings.model_fields.values())


def test_the_reference_page_has_every_setting() -> None:
    text = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text()
    assert [variable for variable in settings.variables() if f"`{variable}`" not in text] == []
