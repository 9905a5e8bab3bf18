# SPDX-License-Identifier: Apache-2.0
"""What a pod makes of its environment."""

from pathlib import Path

import pytest

from gangs import make_assignment
from gpubench import names
from gpubench_jobs.launcher import config


def gang(host: str, *, workers: int = 2, attempt: int = 1) -> str:
    assignment = make_assignment(workers=workers, attempt=attempt)
    return config.read(
        {
            names.ENV_ASSIGNMENT: assignment.to_json(),
            names.ENV_POD_INDEX: "0",
            names.ENV_POD_IP: "127.0.0.1",
            names.ENV_RENDEZVOUS_HOST: host,
        }
    ).gang


def test_two_studies_of_equal_content_have_two_gangs() -> None:
    assert gang("a-x1-trial1-1-0.a-x1.lab") != gang("a-y2-trial1-1-0.a-y2.lab")
    assert gang("a-x1-trial1-1-0.a-x1.lab") == gang("a-x1-trial1-1-0.a-x1.lab")
    assert gang("host", attempt=1) != gang("host", attempt=2)


def test_a_gang_of_one_pod_needs_no_host() -> None:
    assert gang("", workers=1) == "trial1-1"


def records_of(folder: str | None, *, attempt: int = 1, index: int = 0) -> Path | None:
    variables = {
        names.ENV_ASSIGNMENT: make_assignment(workers=2, attempt=attempt).to_json(),
        names.ENV_POD_INDEX: str(index),
        names.ENV_POD_IP: "127.0.0.1",
        names.ENV_RENDEZVOUS_HOST: "host",
    }
    return config.read(variables if folder is None else {**variables, names.ENV_RECORDS: folder}).records


def test_each_pod_of_each_attempt_has_a_file_of_its_own_on_the_results_volume() -> None:
    found = [records_of("/volume", attempt=attempt, index=index) for attempt in (1, 2) for index in (0, 1)]
    assert [str(one) for one in found] == [
        *("/volume/trial1.1.0.jsonl", "/volume/trial1.1.1.jsonl"),
        *("/volume/trial1.2.0.jsonl", "/volume/trial1.2.1.jsonl"),
    ]


def test_without_a_results_volume_there_is_no_file() -> None:
    assert (records_of(None), records_of("")) == (None, None)


@pytest.mark.parametrize(("text", "runs_again"), [("true", True), ("false", False), (None, False)])
def test_an_attempt_runs_again_where_it_is_said_so(text: str | None, runs_again: bool) -> None:
    variables = {
        names.ENV_ASSIGNMENT: make_assignment(workers=1).to_json(),
        names.ENV_POD_INDEX: "0",
        names.ENV_POD_IP: "127.0.0.1",
    }
    told = variables if text is None else {**variables, names.ENV_RUNS_AGAIN: text}
    assert config.read(told).runs_again is runs_again
    assert config.read(told).limits == config.Limits()


def test_of_an_assignment_that_cannot_be_read_trial_and_attempt_are_not_known() -> None:
    assert config.trial_and_attempt({}) == ("unknown", 0)
    assert config.trial_and_attempt({names.ENV_ASSIGNMENT: "nonsense"}) == ("unknown", 0)
    known = {names.ENV_ASSIGNMENT: make_assignment(workers=1, attempt=3).to_json()}
    assert config.trial_and_attempt(known) == ("trial1", 3)


def test_the_ranks_of_a_pod_follow_those_of_the_pod_before() -> None:
    assignment = make_assignment(workers=12, workers_per_node=4)
    assert [[*config.ranks_of_pod(assignment, pod=pod)] for pod in (0, 2)] == [[0, 1, 2, 3], [8, 9, 10, 11]]


def addressed(addresses: str, *, workers: int) -> config.PodConfig:
    """The first pod of a gang of so many pods."""
    return config.read(
        {
            names.ENV_ASSIGNMENT: make_assignment(workers=workers).to_json(),
            names.ENV_POD_INDEX: "0",
            names.ENV_POD_IP: addresses,
            names.ENV_RENDEZVOUS_HOST: "host",
        }
    )


def test_a_pod_of_ipv6_alone_runs_by_itself_and_several_are_refused() -> None:
    alone = addressed("::1", workers=1)
    assert (alone.pod_ip, alone.gang_ip, alone.interface, alone.rendezvous_host) == (
        "::1",
        *("127.0.0.1", "lo", "127.0.0.1"),
    )
    with pytest.raises(config.BadConfig, match="'::1': Horovod needs IPv4 between pods: use gangs of one pod"):
        addressed("::1", workers=2)


def test_of_two_families_pods_meet_by_ipv4() -> None:
    for workers in (1, 2):
        for addresses in ("::1,127.0.0.1", "127.0.0.1,::1"):
            found = addressed(addresses, workers=workers)
            assert (found.pod_ip, found.gang_ip, found.interface) == ("127.0.0.1", "127.0.0.1", "lo")
