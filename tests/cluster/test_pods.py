# SPDX-License-Identifier: Apache-2.0
"""What a process node promises about one pod, on the real control plane."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cluster_pods
from cluster_pods import Pods

WRITE_MESSAGE = "import os; open(os.environ['MESSAGE'], 'w').write(%s)"
MESSAGE_VARIABLE = {"name": "MESSAGE", "value": "/dev/termination-log"}


def terminated(pod: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return state


def conditions(pod: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in pod["status"]["conditions"]}


def field_variable(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def resource_variable(name: str, resource: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource}}}


def environment_of(pods: Pods, name: str, **overrides: Any) -> dict[str, str]:
    pods.run(name, "import os, json; print(json.dumps(dict(os.environ)))", **overrides)
    pods.wait_phase(name, "Succeeded")
    environment: dict[str, str] = json.loads(pods.wait_log(name, "}"))
    return environment


def test_success_reports_times_conditions_and_message(pods: Pods) -> None:
    pods.run("good", WRITE_MESSAGE % "'it is done'", env=[MESSAGE_VARIABLE])
    pod = pods.wait_phase("good", "Succeeded")
    state = terminated(pod)
    assert (state["exitCode"], state["reason"], state["message"]) == (0, "Completed", "it is done")
    assert state["startedAt"] <= state["finishedAt"]
    assert pod["status"]["startTime"] <= state["startedAt"]
    assert conditions(pod) == {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "False",
        "Ready": "False",
    }


def test_failure_keeps_the_exit_code_and_the_tail_of_the_message(pods: Pods) -> None:
    pods.run("bad", WRITE_MESSAGE % "'x' * 5000 + 'end'" + "; raise SystemExit(42)", env=[MESSAGE_VARIABLE])
    state = terminated(pods.wait_phase("bad", "Failed"))
    assert (state["exitCode"], state["reason"]) == (42, "Error")
    assert state["message"] == "x" * 4093 + "end"


def test_a_killed_process_ends_with_128_plus_the_signal(pods: Pods) -> None:
    pods.run("killed", "import os; os.kill(os.getpid(), 9)")
    assert terminated(pods.wait_phase("killed", "Failed"))["exitCode"] == 137


def test_a_running_pod_is_ready_and_has_its_own_address(pods: Pods) -> None:
    pods.run("one", "import time; time.sleep(60)")
    pods.run("two", "import time; time.sleep(60)")
    one, two = pods.wait_phase("one", "Running"), pods.wait_phase("two", "Running")
    assert conditions(one)["Ready"] == "True"
    assert one["status"]["podIP"].startswith("127.")
    assert one["status"]["podIP"] != two["status"]["podIP"]
    assert not one["status"]["podIP"].startswith("127.0.")


def test_the_environment_is_the_declared_one_and_nothing_else(pods: Pods) -> None:
    environment = environment_of(
        pods,
        "env",
        env=[
            {"name": "PLAIN", "value": "a"},
            {"name": "EXPANDED", "value": "$(PLAIN)-$(NODE)-$$(PLAIN)"},
            field_variable("NODE", "spec.nodeName"),
            {"name": "LATER", "value": "on $(NODE)"},
            field_variable("NAME", "metadata.name"),
            field_variable("NAMESPACE", "metadata.namespace"),
            field_variable("UID", "metadata.uid"),
            field_variable("LABEL", "metadata.labels['role']"),
            field_variable("ANNOTATION", "metadata.annotations['color']"),
            field_variable("POD_IP", "status.podIP"),
            field_variable("HOST_IP", "status.hostIP"),
            resource_variable("CPUS", "limits.cpu"),
        ],
        annotations={"color": "blue"},
        resources={"limits": {"cpu": "1500m", "memory": "64Mi"}},
    )
    pod = pods.get("env")
    assert pod is not None
    node = pod["spec"]["nodeName"]
    own = {name: value for name, value in environment.items() if name not in ("HOME", "TMPDIR", "PATH", "LC_CTYPE")}
    assert own == {
        "PLAIN": "a",
        "EXPANDED": "a-$(NODE)-$(PLAIN)",  # only what stands before a variable is known to it
        "NODE": node,
        "LATER": f"on {node}",
        "NAME": "env",
        "NAMESPACE": pods.namespace,
        "UID": pod["metadata"]["uid"],
        "LABEL": "test",
        "ANNOTATION": "blue",
        "POD_IP": pod["status"]["podIP"],
        "HOST_IP": pod["status"]["hostIP"],
        "CPUS": "2",
        "HOSTNAME": "env",
        "FROM_IMAGE": "yes",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def test_a_peer_name_stands_for_the_peers_address(pods: Pods) -> None:
    listening = (
        "import socket, os; s = socket.create_server((os.environ['ME'], 7777)); c, _ = s.accept(); c.sendall(b'hello')"
    )
    connecting = (
        "import socket, os, time\n"
        "for _ in range(100):\n"
        "    try: print(socket.create_connection((os.environ['PEER'], 7777)).recv(9).decode()); break\n"
        "    except ConnectionRefusedError: time.sleep(0.05)\n"
    )
    me = [field_variable("ME", "status.podIP")]
    peer = [{"name": "PEER", "value": f"server.net.{pods.namespace}.svc"}, {"name": "OTHER", "value": "server.other"}]
    pods.run("server", listening, env=me, spec={"hostname": "server", "subdomain": "net"})
    pods.run("client", connecting, env=peer, spec={"hostname": "client", "subdomain": "net"})
    pods.wait_phase("client", "Succeeded")
    assert pods.wait_log("client", "hello") == "hello\n"


def test_volume_paths_are_rewritten_and_shared_where_the_volume_is(pods: Pods, tmp_path: Path) -> None:
    spec = {
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "results", "hostPath": {"path": str(tmp_path)}},
        ]
    }
    pods.run(
        "writer",
        "import os; open(os.environ['OUT'], 'w').write('kept'); open(os.environ['SCRATCH'] + '/x', 'w').close()",
        env=[{"name": "OUT", "value": "/results/file"}, {"name": "SCRATCH", "value": "/scratch"}],
        volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}, {"name": "results", "mountPath": "/results"}],
        spec=spec,
    )
    pods.wait_phase("writer", "Succeeded")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "kept"


def test_a_claim_on_a_host_path_volume_is_found(pods: Pods, tmp_path: Path) -> None:
    size = {"storage": "1Gi"}
    pods.cluster.request(
        "POST",
        "/api/v1/persistentvolumes",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteMany"],
                "hostPath": {"path": str(tmp_path)},
                "storageClassName": "manual",
            },
        },
    )
    pods.cluster.request(
        "POST",
        f"/api/v1/namespaces/{pods.namespace}/persistentvolumeclaims",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "claim"},
            "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "manual", "resources": {"requests": size}},
        },
    )
    pods.run(
        "writer",
        "import os; open(os.environ['OUT'], 'w').close()",
        env=[{"name": "OUT", "value": "/data/file"}],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]},
    )
    pods.wait_phase("writer", "Succeeded")  # the binder looks every 15 s
    assert (tmp_path / "file").exists()


def test_a_whole_core_is_the_pods_own(pods: Pods) -> None:
    cores = "import os; print(sorted(os.sched_getaffinity(0)), flush=True); import time; time.sleep(60)"
    spec = {"nodeSelector": {"kubernetes.io/hostname": "process-1"}}
    pods.run("exclusive", cores, resources={"requests": {"cpu": "1"}}, spec=spec)
    assert pods.wait_log("exclusive", "]") == "[1]\n"


def test_an_unknown_image_stays_pending_and_says_so(pods: Pods) -> None:
    image = "registry.example/none:v1"
    pods.run("unknown", "", image=image)

    def backs_off() -> dict[str, Any] | None:
        statuses = (pods.get("unknown") or {})["status"].get("containerStatuses", [])
        waiting: dict[str, Any] = statuses[0]["state"].get("waiting", {}) if statuses else {}
        return waiting if waiting.get("reason") == "ImagePullBackOff" else None

    waiting = cluster_pods.wait_for(backs_off, what="ImagePullBackOff")
    assert image in waiting["message"]
    assert "not found" in waiting["message"]
    pods.wait_phase("unknown", "Pending")
    pods.delete("unknown")
    pods.wait_gone("unknown")


def test_a_missing_program_fails_like_in_a_container(pods: Pods) -> None:
    pods.run("missing", "", command=["no-such-program"])
    state = terminated(pods.wait_phase("missing", "Failed"))
    assert (state["exitCode"], state["reason"]) == (128, "StartError")


def stand_in(name: str, end: str, **more: Any) -> dict[str, Any]:
    """A container without a process, and how it ends."""
    return {"name": name, "image": "none", "env": [{"name": "STAND_IN_END", "value": end}], **more}


def states(pod: dict[str, Any]) -> dict[str, tuple[str, int | None]]:
    """State and exit code of each container."""
    status = pod["status"]
    found = [*status.get("initContainerStatuses", ()), *status["containerStatuses"]]
    return {one["name"]: (*one["state"], one["state"].get("terminated", {}).get("exitCode")) for one in found}


def gang(script: str, *sidecars: dict[str, Any], inits: list[dict[str, Any]]) -> dict[str, Any]:
    process = cluster_pods.container(script, name="gang")
    return {"containers": [*sidecars, process], "initContainers": inits}


def test_a_sidecar_that_never_ends_keeps_its_pod_and_is_ended_with_it(pods: Pods) -> None:
    inits = [stand_in("first", "0@0"), stand_in("proxy", "never", restartPolicy="Always")]
    pods.run("kept", "", spec=gang("", stand_in("agent", "never"), inits=inits))

    def ended() -> dict[str, Any] | None:
        pod = pods.get("kept")
        found = pod and pod["status"].get("containerStatuses") and states(pod)["gang"] == ("terminated", 0)
        return pod if found else None

    pod = cluster_pods.wait_for(ended, what="the end of the process")
    assert states(pod) == {
        "first": ("terminated", 0),
        "proxy": ("running", None),
        "agent": ("running", None),
        "gang": ("terminated", 0),
    }
    assert (pod["status"]["phase"], conditions(pod)["Ready"]) == ("Running", "False")
    pods.delete("kept")
    pods.wait_gone("kept")


def test_a_pod_with_only_native_sidecars_ends_with_its_process(pods: Pods) -> None:
    pods.run("native", "", spec=gang("", inits=[stand_in("proxy", "never", restartPolicy="Always")]))
    assert states(pods.wait_phase("native", "Succeeded")) == {"proxy": ("terminated", 143), "gang": ("terminated", 0)}


def test_a_sidecar_that_fails_fails_its_pod_when_the_process_has_ended(pods: Pods) -> None:
    pods.run("crashed", "", spec=gang("import time; time.sleep(1)", stand_in("agent", "oom@0.2"), inits=[]))
    pod = pods.wait_phase("crashed", "Failed")
    assert states(pod) == {"agent": ("terminated", 137), "gang": ("terminated", 0)}


def test_an_init_container_that_fails_is_all_that_ran_and_one_that_goes_on_is_waited_for(pods: Pods) -> None:
    proxy = stand_in("proxy", "never", restartPolicy="Always")
    pods.run("failed", "", spec=gang("", inits=[proxy, stand_in("one", "3@1.5"), stand_in("two", "0@0")]))
    pods.wait_phase("failed", "Failed")

    def proxy_ended() -> dict[str, Any] | None:
        found = states(pods.get("failed") or {})
        return found if found.pop("proxy") == ("terminated", 143) else None

    ended = cluster_pods.wait_for(proxy_ended, what="the end of its sidecar in its status")
    assert ended == {"one": ("terminated", 3), "two": ("waiting", None), "gang": ("waiting", None)}
    pods.run("goes-on", "", spec=gang("", inits=[stand_in("one", "never")]))
    crashes = stand_in("one", "4@0", restartPolicy="Always")
    pods.run("crashes", "", spec=gang("", inits=[crashes, stand_in("two", "0@0")]))

    def first(name: str) -> dict[str, Any] | None:
        found = ((pods.get(name) or {})["status"].get("initContainerStatuses") or [None])[0]
        return found if found and ("running" in found["state"] or "lastState" in found) else None

    assert "running" in cluster_pods.wait_for(lambda: first("goes-on"), what="it runs")["state"]
    looped = cluster_pods.wait_for(lambda: first("crashes"), what="it crashed")
    assert looped["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert looped["lastState"]["terminated"]["exitCode"] == 4
    for name in ("goes-on", "crashes"):
        assert (pods.get(name) or {})["status"]["phase"] == "Pending"
        pods.delete(name)
        pods.wait_gone(name)


def test_what_a_process_node_cannot_do_fails_with_a_sentence(pods: Pods) -> None:
    pods.run("again", "", spec={"restartPolicy": "Always"})
    pod = pods.wait_phase("again", "Failed")
    assert "restartPolicy Never" in pod["status"]["message"]
    pods.run("map", "", env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}])
    pods.run("secret", "", env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}])

    def refusal(name: str) -> str:
        def waiting() -> str | None:
            statuses = (pods.get(name) or {})["status"].get("containerStatuses", [])
            return statuses[0]["state"]["waiting"]["message"] if statuses else None

        return cluster_pods.wait_for(waiting, what="CreateContainerConfigError")

    assert "fieldRef" in refusal("map")
    assert refusal("secret") == 'secrets "s" not found'


def test_the_image_brings_an_entry_point(pods: Pods) -> None:
    pods.run("entry", "", command=None)
    pods.wait_phase("entry", "Succeeded")
    assert pods.wait_log("entry", "entry") == "entry point\n"


def test_logs_follow_and_tail(pods: Pods) -> None:
    pods.run("talker", "import time\nfor i in range(5): print('line', i, flush=True); time.sleep(0.2)")
    pods.wait_phase("talker", "Running", "Succeeded")
    pods.wait_log("talker", "line 0")
    followed = pods.cluster.kubectl("logs", "-f", "-n", pods.namespace, "talker").stdout
    assert followed.splitlines() == [f"line {index}" for index in range(5)]
    tail = pods.cluster.kubectl("logs", "--tail=2", "-n", pods.namespace, "talker").stdout
    assert tail.splitlines() == ["line 3", "line 4"]


def test_pretended_pods_run_at_once_and_end_when_asked(pods: Pods) -> None:
    pods.run("forever", "", place="pretend")
    pods.run("brief", "", place="pretend", annotations={
        "gpubench.dev/pretend-exit": "0.5", "gpubench.dev/pretend-message": "figures",
    })  # fmt: skip
    pod = pods.wait_phase("brief", "Succeeded")
    assert terminated(pod)["message"] == "figures"
    running = pods.wait_phase("forever", "Running")
    assert conditions(running)["Ready"] == "True"
    pods.delete("forever")
    pods.wait_gone("forever")
