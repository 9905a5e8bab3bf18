# SPDX-License-Identifier: Apache-2.0
"""`gpubench drill NAME --every 90s`: interrupt a study of the cluster on purpose, to see how it recovers.

It sets `spec.drill` of the object, and the operator does the rest. Must not happen: a drill that does nothing and says
nothing.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from gpubench.api import validate
from gpubench.api.attempts import Drill
from gpubench.scheduler import conditions
from gpubench.units import duration_seconds
from gpubench_cli import export, refusal, terminal
from gpubench_cli.refusal import Refusal


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "drill",
        help="interrupt a study in the cluster on purpose, to see how it recovers",
        description="Let the operator evict a pod of each attempt of a study once it has run for a while. These "
        "interruptions are counted by themselves (status.attempts.drilled), and no figure of a pool's is made of them.",
    )
    parser.add_argument("name", metavar="NAME", help="a GpuBenchmark that has not finished")
    switch = parser.add_mutually_exclusive_group(required=True)
    switch.add_argument(
        "--every",
        metavar="DURATION",
        help="evict one pod when all pods of an attempt have run for so long, such as 90s",
    )
    switch.add_argument("--stop", action="store_true", help="interrupt no further attempt")
    parser.add_argument(
        "--times",
        type=int,
        metavar="NUMBER",
        help="attempts to interrupt at most, those of before included; "
        f"{Drill.model_fields['times'].default} by default",
    )
    parser.add_argument(
        "--drain",
        metavar="DURATION",
        help="cordon the pod's node before, so that it takes no new pods for so long, such as 60s",
    )
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Look at the study, change its drill, say what will be."""
    if arguments.stop and (arguments.times is not None or arguments.drain is not None):
        given = "--times" if arguments.times is not None else "--drain"
        raise Refusal(f"{given} says how to interrupt, and --stop ends that: leave out one of the two")
    from gpubench_cli import cluster  # noqa: PLC0415  # the client takes long to load

    with cluster.connect(arguments.namespace) as place:
        body = place.benchmark(arguments.name)
        if arguments.stop:
            place.set_drill(arguments.name, None)
            terminal.write(f"{arguments.name} is interrupted no more")
            return refusal.EXIT_DONE
        wanted = {"every": arguments.every} | ({} if arguments.times is None else {"times": arguments.times})
        wanted |= {} if arguments.drain is None else {"kind": "Drain", "cordonFor": arguments.drain}
        drill = asked(body, wanted, name=arguments.name)
        done = _refuse_what_does_nothing(body, drill, name=arguments.name)
        place.set_drill(arguments.name, drill.to_wire())
    node = f", its node cordoned for {drill.cordon_for}" if drill.kind == "Drain" else ""
    terminal.write(
        f"{arguments.name}: one pod of each attempt is evicted when all of its pods have run for {drill.every}{node}, "
        f"of {drill.times} attempts at most ({done} so far)"
    )
    for sentence in _cautions(body, drill, name=arguments.name):
        terminal.tell(f"warning: {sentence}")
    return refusal.EXIT_DONE


def asked(body: Mapping[str, Any], wanted: Mapping[str, Any], *, name: str) -> Drill:
    """The drill as the API server would take it; Refusal with its sentence where it would not."""
    document = {**body, "spec": {**(body.get("spec") or {}), "drill": dict(wanted)}}
    try:
        drill = validate.load_benchmark(document).spec.drill
    except validate.InvalidObject as error:
        ours = [problem for problem in error.problems if problem.field.startswith("spec.drill")]
        if not ours:
            raise Refusal(f"{name} cannot be read by this gpubench: {error.problems[0]}") from error
        raise Refusal(str(ours[0])) from error
    assert drill is not None  # it stands in the document
    return drill


def _refuse_what_does_nothing(body: Mapping[str, Any], drill: Drill, *, name: str) -> int:
    """Attempts that were interrupted so far; Refusal where no further one can be."""
    status = export.read_status(body.get("status"), name=name)
    if conditions.holds(status.conditions, conditions.FINISHED):
        raise Refusal(f"{name} has finished: there is nothing left to interrupt")
    done = 0 if status.attempts is None else status.attempts.drilled
    if done >= drill.times:
        raise Refusal(f"{done} attempts of {name} were interrupted already: give --times more than {done}")
    return done


def _cautions(body: Mapping[str, Any], drill: Drill, *, name: str) -> list[str]:
    """What a person may not expect."""
    spec = export.read_spec(body.get("spec"), name=name)
    measured = duration_seconds(spec.measure.warm_up) + duration_seconds(spec.measure.duration)
    found = []
    if spec.measure.mode == "Throughput" and measured >= duration_seconds(drill.every):
        found.append(
            f"a trial measures for {measured} s (measure.warmUp and duration), and begins anew each time: none ends "
            f"before the last of the {drill.times} interruptions"
        )
    if spec.suspend:
        found.append("the study is suspended: nothing runs until spec.suspend is false")
    return found
