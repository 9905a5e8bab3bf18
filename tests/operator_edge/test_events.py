# SPDX-License-Identifier: Apache-2.0
"""Events as `kubectl describe` shows them, and each once."""

import builders
import memory_kube
from gpubench import names
from gpubench.scheduler import actions
from gpubench_cluster import kube
from gpubench_operator import events, observe
from memory_world import NOW, Clock

NEWS = actions.Event.warning("NodeLost", "node n is gone")


def recorder(identity: str = "operator-0") -> tuple[memory_kube.MemoryKube, events.EventRecorder]:
    api = memory_kube.MemoryKube(Clock())
    return api, events.EventRecorder(api, identity=identity, clock=Clock())


async def test_an_event_is_one_of_the_core_api_about_its_object_by_this_operator() -> None:
    api, tested = recorder(identity="x" * 200)
    study = builders.study()
    await tested.emit(study, NEWS)
    (told,) = api.all(kube.EVENTS)
    metadata = told.pop("metadata")
    assert metadata["name"].startswith("quick.")
    assert (metadata["namespace"], metadata["labels"]) == ("default", {names.LABEL_MANAGED_BY: names.MANAGED_BY})
    about = {"kind": names.BENCHMARK_KIND, "namespace": "default", "name": "quick", "uid": study.uid}
    assert told == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"apiVersion": names.API_VERSION, **about},
        "type": "Warning",
        "reason": "NodeLost",
        "message": "node n is gone",
        "firstTimestamp": observe.timestamp(NOW),
        "lastTimestamp": observe.timestamp(NOW),
        "count": 1,
        "source": {"component": "gpubench-operator"},
        "reportingComponent": "gpubench-operator",
        "reportingInstance": "x" * 128,
    }


async def test_what_was_told_is_told_again_only_of_another_generation_or_object() -> None:
    api, tested = recorder()
    _, after_a_restart = recorder()
    after_a_restart._api = api
    for one in (tested, tested, after_a_restart):
        await one.emit(builders.study(), NEWS)
    assert len(api.all(kube.EVENTS)) == 1
    for about in (builders.study(generation=2), builders.study(uid="another")):
        await tested.emit(about, NEWS)
    await tested.emit(builders.study(), actions.Event.warning("NodeLost", "node m is gone"))
    assert len(api.all(kube.EVENTS)) == 4


async def test_a_message_that_the_api_server_would_not_take_is_cut() -> None:
    api, tested = recorder()
    await tested.emit(builders.study(), actions.Event.normal("Said", "word " * 500))
    (told,) = api.all(kube.EVENTS)
    assert (told["type"], len(told["message"]) <= 1024) == ("Normal", True)
    assert told["message"].startswith("word word")
