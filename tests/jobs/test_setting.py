# SPDX-License-Identifier: Apache-2.0
"""What a pod makes of its environment."""

from gangs import make_assignment
from gpubench import names
from gpubench_jobs import setting


def gang(host: str, *, workers: int = 2, attempt: int = 1) -> str:
    assignment = make_assignment(workers=workers, attempt=attempt)
    return setting.read(
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
