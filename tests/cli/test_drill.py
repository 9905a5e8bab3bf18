# SPDX-License-Identifier: Apache-2.0
"""`gpubench drill` before it reaches a cluster, and what becomes of spec.drill on this machine."""

from typing import Any

import pytest

import builders
from gpubench_cli import __main__ as program
from gpubench_cli import cluster, run
from gpubench_cli.terminal import CliError

BODY: dict[str, Any] = {
    "apiVersion": "gpubench.dev/v1alpha1",
    "kind": "GpuBenchmark",
    "metadata": {"name": "quick", "namespace": "default", "uid": "u"},
    "spec": {"sweep": [builders.block()], "drill": {"every": "30s", "times": 3}},
    "status": {},
}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--stop", "--times", "3"), "--times says how to interrupt, and --stop ends that"),
        (("--stop", "--drain", "60s"), "--drain says how to interrupt, and --stop ends that"),
        (("--every", "90s"), "no cluster is configured"),
        (("--stop",), "no cluster is configured"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/no/kubeconfig")
    assert program.main(("drill", "quick", *arguments)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert says in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [(), ("--every", "90s", "--stop")], ids=["neither", "both"])
def test_one_of_every_and_stop_is_needed(arguments: tuple[str, ...]) -> None:
    assert program.main(("drill", "quick", *arguments)) == 2


def test_a_new_drill_replaces_the_old_one_as_a_whole() -> None:
    assert cluster.asked_drill(BODY, {"every": "90s"}, name="quick").to_wire() == {
        "every": "90s",
        "times": 20,
        "kind": "Evict",
    }


def test_a_drill_that_the_api_server_would_refuse_is_refused_with_its_own_sentence() -> None:
    """Whatever else this version cannot read of the benchmark."""
    newer = {**BODY, "spec": {**BODY["spec"], "measure": {"duration": "for ever"}}}
    with pytest.raises(CliError, match=r"^spec\.drill\.every"):
        cluster.asked_drill(newer, {"every": "soon"}, name="quick")


def test_a_study_that_this_version_cannot_read_is_not_called_a_wrong_drill() -> None:
    newer = {**BODY, "spec": {**BODY["spec"], "novelty": 1}}
    with pytest.raises(CliError, match=r"quick cannot be read by this gpubench: spec\.novelty"):
        cluster.asked_drill(newer, {"every": "90s"}, name="quick")


def test_a_drill_has_no_effect_on_this_machine_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    asked = builders.study(builders.spec(drill={"every": "90s"}))
    assert run.without_drill(asked).spec == builders.study().spec
    assert capsys.readouterr().err == (
        "warning: spec.drill has no effect here: only the operator evicts pods, in a cluster\n"
    )
    assert run.without_drill(builders.study()) == builders.study()
    assert capsys.readouterr().err == ""
