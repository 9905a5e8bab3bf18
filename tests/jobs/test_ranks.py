# SPDX-License-Identifier: Apache-2.0
"""Rank arithmetic: against Horovod's own, and for what cannot be divided."""

import pytest
from horovod.runner.common.util import hosts as horovod_hosts
from horovod.runner.gloo_run import create_slot_env_vars

from gangs import make_assignment
from gpubench.plan.assignment import Assignment
from gpubench_jobs.engines import launch
from gpubench_jobs.launcher import config


@pytest.mark.parametrize(("pods", "slots"), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 8)])
def test_ranks_are_those_of_horovodrun(pods: int, slots: int) -> None:
    listed = ",".join(f"pod-{n}:{slots}" for n in range(pods))
    theirs = [
        create_slot_env_vars(slot)
        for slot in horovod_hosts.get_host_assignments(horovod_hosts.parse_hosts(listed), pods * slots)
    ]
    assignment = make_assignment(workers=pods * slots, workers_per_node=slots)
    ours = [
        launch.horovod_environment(assignment, rank, rendezvous_address="10.0.0.1", interface="eth0")
        for pod in range(pods)
        for rank in config.ranks_of_pod(assignment, pod=pod)
    ]
    assert len(ours) == len(theirs)
    for own, their in zip(ours, theirs, strict=True):
        shared = set(own) & set(their)
        assert {
            "HOROVOD_RANK",
            "HOROVOD_SIZE",
            "HOROVOD_LOCAL_RANK",
            "HOROVOD_CROSS_RANK",
            "HOROVOD_HOSTNAME",
        } <= shared
        assert {name: own[name] for name in shared} == {name: str(their[name]) for name in shared}


def test_the_port_of_the_rendezvous_lies_below_the_ephemeral_range() -> None:
    variables = launch.horovod_environment(make_assignment(), 0, rendezvous_address="10.0.0.1", interface="eth0")
    assert int(variables["HOROVOD_GLOO_RENDEZVOUS_PORT"]) < 32768
    assert variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "10.0.0.1"


def variables_of(assignment: Assignment, **inherited: str) -> dict[str, str]:
    return launch.worker_environment(
        assignment, 0, inherited=inherited, rendezvous_address="10.0.0.1", interface="eth0"
    )


def test_a_users_variables_reach_the_workers_but_for_those_that_change_the_arithmetic() -> None:
    assignment = make_assignment()
    assert variables_of(assignment)["NCCL_SOCKET_IFNAME"] == "eth0"
    assert variables_of(assignment, NCCL_SOCKET_IFNAME="ib0", NCCL_DEBUG="INFO").items() >= {
        ("NCCL_SOCKET_IFNAME", "ib0"),
        ("NCCL_DEBUG", "INFO"),
    }
    foreign = variables_of(
        assignment, NVIDIA_TF32_OVERRIDE="1", KERAS_BACKEND="torch", HOROVOD_RANK="7", KERAS_HOME="/home/me/.keras"
    )
    assert "NVIDIA_TF32_OVERRIDE" not in foreign
    assert (foreign["KERAS_BACKEND"], foreign["HOROVOD_RANK"], foreign["KERAS_HOME"]) == (
        "tensorflow",
        "0",
        "/dev/null",
    )


def test_a_variant_tunes_how_horovod_gathers_gradients() -> None:
    def variables(communication: dict[str, int] | None, **inherited: str) -> dict[str, str]:
        variant = {"name": "tuned", "communication": communication} if communication else None
        return variables_of(make_assignment(variant=variant), **inherited)

    tuned = variables({"fusionThresholdMib": 2, "cycleTimeMilliseconds": 5}, HOROVOD_CYCLE_TIME="9")
    assert (tuned["HOROVOD_FUSION_THRESHOLD"], tuned["HOROVOD_CYCLE_TIME"]) == ("2097152", "5")
    assert variables({"fusionThresholdMib": 0})["HOROVOD_FUSION_THRESHOLD"] == "0"
    assert not {"HOROVOD_FUSION_THRESHOLD", "HOROVOD_CYCLE_TIME"} & set(variables(None))


@pytest.mark.parametrize(("workers", "per_node", "pod"), [(3, 2, 0), (1, 2, 0), (4, 2, 2)])
def test_what_cannot_be_divided_is_refused(workers: int, per_node: int, pod: int) -> None:
    with pytest.raises(ValueError, match="pod"):
        config.ranks_of_pod(make_assignment(workers=workers, workers_per_node=per_node), pod=pod)


@pytest.mark.parametrize(
    ("cores", "count", "processors", "shares"),
    [
        ((0, 1), 2, 1.0, ((0,), (1,))),
        ((0, 1), 2, 0.5, ((0,), (1,))),
        ((7, 3, 5, 1), 2, 2.9, ((1, 3), (5, 7))),
        ((4,), 1, 1.0, ((4,),)),
    ],
)
def test_cores_are_disjoint_and_no_more_than_the_share(
    cores: tuple[int, ...], count: int, processors: float, shares: tuple[tuple[int, ...], ...]
) -> None:
    assert config.share_cores(cores, ranks=count, processors=processors, alone=True) == shares


def test_only_cores_that_are_the_pods_own_are_pinned() -> None:
    assert config.share_cores((0, 1, 2), ranks=2, processors=1.0, alone=False) is None  # the whole node, and neighbours
    assert config.share_cores((4, 5), ranks=2, processors=1.0, alone=False) == ((4,), (5,))  # a reserved set


def test_too_few_cores_are_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match="2 ranks of 1 processors do not fit the 1 processors"):
        config.share_cores((0,), ranks=2, processors=1.0, alone=False)
