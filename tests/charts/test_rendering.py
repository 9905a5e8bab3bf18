# SPDX-License-Identifier: Apache-2.0
"""What the chart renders: valid for every Kubernetes it is for, by Helm 3 and by Helm 4, and no right too many."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

import chart_page
import helm_programs
import openapi_schemas
import rendering
import value_sets
from gpubench import metrics, names, permissions
from gpubench.api import schema, validate
from gpubench_operator import settings
from rendering import Object, of_kind

HELMS = ("helm3", "helm4")
WITH_CRDS = ("default", "another-name", "full-name-and-annotations", "crds-go")
OPENSHIFT = ("security.openshift.io/v1",)
REVIEWS = "system:auth-delegator"  # a role of Kubernetes' own
POLICY = "ValidatingAdmissionPolicy"
README = rendering.CHART / "README.md"
DASHBOARDS = rendering.CHART.parents[1] / "dashboards"
Right = tuple[str, str, str]
#: Each value set's manifests by Helm's name.
Rendered = Mapping[tuple[str, str], tuple[str, ...]]


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    """helm3, helm4 and kubeconform."""
    return helm_programs.build()


@pytest.fixture(scope="module")
def rendered(programs: dict[str, Path]) -> Rendered:
    """Every value set by both Helms; those of the README are among them."""
    asked = [(helm, name) for name in all_values() for helm in HELMS]

    def one(which: tuple[str, str]) -> tuple[str, ...]:
        helm, name = which
        release = "a.release-with-a-name-as-long-as-helm-allows-it-to-be"[:53] if name == "another-name" else "gpubench"
        return rendering.template(programs[helm], all_values()[name], release=release)

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(asked, pool.map(one, asked), strict=True))


def all_values() -> dict[str, dict[str, Any]]:
    """Without the CRDs where they would be the same once more: they are nine tenths of what Helm has to do."""
    found = value_sets.TAKEN | {f"readme-{number}": values for number, values in enumerate(of_the_readme())} | of_ct()
    return {
        name: values if name in WITH_CRDS else {"crds": {"enabled": False}} | values for name, values in found.items()
    }


def of_the_readme() -> list[dict[str, Any]]:
    """The values files that the README shows."""
    text = README.read_text(encoding="utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(# values[^\n]*\n.*?)```", text, re.DOTALL)]


def of_ct() -> dict[str, dict[str, Any]]:
    """The values files with which chart-testing installs the chart."""
    files = (rendering.CHART / "ci").glob("*-values.yaml")
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in files}


def manifests(rendered: Rendered, name: str) -> list[Object]:
    return [parsed(text) for text in rendered["helm4", name]]


@functools.cache
def parsed(text: str) -> Object:
    """Once for all tests: they only read."""
    (body,) = rendering.objects([text])
    return body


def test_at_least_sixty_value_sets_are_tried_and_those_of_the_readme_and_of_chart_testing() -> None:
    different = {json.dumps(values, sort_keys=True) for values in value_sets.TAKEN.values()}
    assert len(different) == len(value_sets.TAKEN) >= 60
    assert len(of_the_readme()) >= 2
    assert len(of_ct()) >= 2


@pytest.mark.parametrize("version", openapi_schemas.KUBERNETES)
def test_every_manifest_is_valid_to_the_letter(
    programs: dict[str, Path], rendered: Rendered, version: str, tmp_path: Path
) -> None:
    """Each different manifest once; a field that the schema does not name is an error, and one named twice."""
    location = openapi_schemas.write_for_kubeconform(version, tmp_path / "schemas")
    different = {manifest for found in rendered.values() for manifest in found}
    assert len(different) > 60
    assert invalid(programs, different, location=location, folder=tmp_path / "manifests") == {}


def test_what_no_schema_names_would_be_noticed(programs: dict[str, Path], tmp_path: Path) -> None:
    location = openapi_schemas.write_for_kubeconform(openapi_schemas.KUBERNETES[0], tmp_path / "schemas")
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports: [{port: 1}]\n"
    wrong = {
        service,
        f"{service}  externalname: b\n",
        f"{service}  ports: [{{port: 2}}]\n",
        service.replace("port: 1", "port: one"),
        service.replace("Service", "Serviec"),
    }
    found = invalid(programs, wrong, location=location, folder=tmp_path / "manifests")
    assert set(found) == wrong - {service}


def invalid(programs: dict[str, Path], texts: Iterable[str], *, location: str, folder: Path) -> dict[str, str]:
    """What is wrong with which manifest; all of them in one process."""
    folder.mkdir()
    files = {str(folder / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.yaml"): text for text in texts}
    for file, text in files.items():
        Path(file).write_text(text, encoding="utf-8")
    command = [str(programs["kubeconform"]), "-strict", "-output", "json", "-schema-location", location, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return {files[one["filename"]]: one["msg"] for one in json.loads(done.stdout).get("resources") or ()}


def test_both_helms_render_the_same(rendered: Rendered) -> None:
    for name in all_values():
        assert rendered["helm3", name] == rendered["helm4", name], name


def test_the_default_rendering_is_as_it_was_committed(programs: dict[str, Path]) -> None:
    committed = rendering.PINNED.read_text(encoding="utf-8")
    assert rendering.pinned(programs["helm4"]) == committed, "write it anew with tests/charts/rendering.py"


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("name", value_sets.REFUSED)
def test_wrong_values_are_refused_with_a_sentence(programs: dict[str, Path], name: str, helm: str) -> None:
    values, sentence = value_sets.REFUSED[name]
    with pytest.raises(rendering.Refused) as refused:
        rendering.template(programs[helm], values)
    assert sentence in str(refused.value)


def test_an_older_kubernetes_is_refused_and_a_clouds_own_version_is_none(programs: dict[str, Path]) -> None:
    with pytest.raises(rendering.Refused, match=r"requires kubeVersion: >=1\.33\.0-0"):
        rendering.template(programs["helm4"], kubernetes="1.32.9")
    assert rendering.template(programs["helm4"], kubernetes="1.33.4-gke.1245000")


@pytest.mark.parametrize("helm", HELMS)
def test_helms_own_linter_has_nothing_to_say(programs: dict[str, Path], helm: str) -> None:
    done = subprocess.run(
        [str(programs[helm]), "lint", "--strict", str(rendering.CHART)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "[WARNING]" in done.stdout, "[ERROR]" in done.stdout) == (0, False, False), done.stdout


def test_a_packaged_chart_renders_the_same(programs: dict[str, Path], rendered: Rendered, tmp_path: Path) -> None:
    """Nothing that is needed is left out of the package."""
    command = [str(programs["helm4"]), "package", str(rendering.CHART), "--destination", str(tmp_path)]
    subprocess.run(command, capture_output=True, check=True)
    (package,) = tmp_path.glob("gpubench-*.tgz")
    assert rendering.template(programs["helm4"], chart=package) == rendered["helm4", "default"]


def test_the_crds_are_the_generated_ones_and_stay_unless_they_are_to_go(rendered: Rendered) -> None:
    committed = {
        body["metadata"]["name"]: body
        for path in (rendering.CHART / "files" / "crds").glob("*.yaml")
        for body in rendering.objects([path.read_text(encoding="utf-8")])
    }
    kept = of_kind(manifests(rendered, "default"), "CustomResourceDefinition")
    assert {body["metadata"]["name"]: body["spec"] for body in kept} == {
        name: body["spec"] for name, body in committed.items()
    }
    assert {body["metadata"]["annotations"]["helm.sh/resource-policy"] for body in kept} == {"keep"}
    gone = of_kind(manifests(rendered, "crds-go"), "CustomResourceDefinition")
    assert [body["metadata"].get("annotations") for body in gone] == [None] * len(committed)
    assert of_kind(manifests(rendered, "without-crds"), "CustomResourceDefinition") == []


@pytest.mark.parametrize(
    ("name", "scopes"),
    [
        ("default", {"": {"cluster", "studies"}, "gpubench-system": {"own"}}),
        ("drains", {"": {"cluster", "studies", "drains"}, "gpubench-system": {"own"}}),
        ("two-namespaces", {"": {"cluster"}, "gpubench-system": {"own"}, "team-a": {"studies"}, "team-b": {"studies"}}),
        ("its-own-namespace-and-drains", {"": {"cluster", "drains"}, "gpubench-system": {"own", "studies"}}),
        ("roles-by-others", {}),
    ],
)
def test_the_operator_has_the_rights_of_the_table_and_no_other(
    rendered: Rendered, name: str, scopes: dict[str, set[str]]
) -> None:
    expected = {
        place: {right for rule in permissions.RULES if rule.scope.value in chosen for right in rights_of_a_rule(rule)}
        for place, chosen in scopes.items()
    }
    assert rights_of_the_operator(manifests(rendered, name)) == expected


def test_every_scope_of_the_table_is_granted_where_all_is_asked_for(rendered: Rendered) -> None:
    """A scope that the chart does not know would be a right that the operator never gets."""
    granted = set().union(*rights_of_the_operator(manifests(rendered, "drains")).values())
    assert granted == set().union(*map(rights_of_a_rule, permissions.RULES))


def test_only_who_drains_lets_the_operator_patch_nodes(rendered: Rendered) -> None:
    patch: Right = ("", "nodes", "patch")
    assert [
        name for name in value_sets.TAKEN if patch in rights_of_the_operator(manifests(rendered, name)).get("", ())
    ] == ["its-own-namespace-and-drains", "drains"]


def test_only_who_reviews_scrapes_may_ask_for_reviews_and_nothing_more(rendered: Rendered) -> None:
    asks = [name for name in value_sets.TAKEN if REVIEWS in rights_of_the_operator(manifests(rendered, name))]
    assert asks == ["https-and-tokens"], "the other one has roles by others"
    rights, default = (rights_of_the_operator(manifests(rendered, name)) for name in (asks[0], "default"))
    assert rights == default | {REVIEWS: set()}


def test_with_tls_probes_and_scrapes_are_by_https_and_scrapes_bring_a_token(rendered: Rendered) -> None:
    def rendered_with(name: str) -> tuple[Object, Object]:
        found = manifests(rendered, name)
        (deployment,), (monitor,) = of_kind(found, "Deployment"), of_kind(found, "ServiceMonitor")
        (endpoint,) = monitor["spec"]["endpoints"]
        return deployment["spec"]["template"]["spec"], endpoint

    pod, endpoint = rendered_with("https-and-tokens")
    (container,) = pod["containers"]
    probes = [container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")]
    assert {probe["scheme"] for probe in probes} == {"HTTPS"}
    variables = {one["name"]: one.get("value", "") for one in container["env"]} | {"POD_NAMESPACE": "n"}
    told = settings.load(variables)
    (mount,) = [one for one in container["volumeMounts"] if one["mountPath"] == told.metrics_tls_folder]
    (volume,) = [one for one in pod["volumes"] if one["name"] == mount["name"]]
    assert (volume["secret"], told.metrics_token_review) == ({"secretName": "operator-tls"}, True)
    ca = {"secret": {"name": "operator-tls", "key": "ca.crt"}}
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == (
        "https",
        {"ca": ca, "serverName": "gpubench.gpubench-system.svc"},
    )
    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    _, otherwise = rendered_with("https-known-otherwise")
    assert otherwise["tlsConfig"] == {"insecureSkipVerify": True}
    assert otherwise["authorization"] == {"credentials": {"name": "token", "key": "token"}}
    assert "bearerTokenFile" not in otherwise


def test_googles_collectors_have_neither_certificate_nor_token(programs: dict[str, Path]) -> None:
    both = {"tls": {"secretName": "operator-tls"}, "podMonitoring": {"enabled": True}}
    with pytest.raises(rendering.Refused, match=r"metrics.podMonitoring.enabled scrapes by HTTP and without a token"):
        rendering.template(programs["helm4"], {"metrics": both})


def test_policies_come_with_cluster_wide_roles_unless_somebody_says_otherwise(
    programs: dict[str, Path], rendered: Rendered
) -> None:
    def policies(name: str) -> set[str]:
        found = manifests(rendered, name)
        bound = {body["spec"]["policyName"] for body in of_kind(found, f"{POLICY}Binding")}
        assert bound == {body["metadata"]["name"] for body in of_kind(found, POLICY)}
        return bound

    five = {f"gpubench-{part}" for part in ("labels", "records", "operator", "gangs", "authors")}
    having = ("default", "policies-without-roles", "policies-of-ones-own", "roles-by-others", "policies-of-others")
    assert [policies(name) for name in having] == [five, five, five, set(), set()]

    def notes(name: str) -> bool:
        command = [str(programs["helm4"]), "install", "gpubench", str(rendering.CHART), "--dry-run=client", "-f", "-"]
        values = json.dumps(all_values()[name])
        return (
            "No ValidatingAdmissionPolicies"
            in subprocess.run(command, input=values, capture_output=True, text=True, check=True).stdout
        )

    assert [notes(name) for name in having] == [False, False, False, True, True]


def test_policies_concern_the_operators_account_and_the_namespaces_that_it_serves(rendered: Rendered) -> None:
    """And what belongs to others is never refused by an expression that fails."""
    for name in ("default", "policies-of-ones-own", "account-by-others"):
        found = manifests(rendered, name)
        (deployment,) = of_kind(found, "Deployment")
        account = (
            f"system:serviceaccount:gpubench-system:{deployment['spec']['template']['spec']['serviceAccountName']}"
        )
        policies = {body["metadata"]["name"].partition("-")[2]: body["spec"] for body in of_kind(found, POLICY)}
        asked = {part: json.dumps(spec.get("matchConditions")) for part, spec in policies.items()}
        assert [account in asked[part] for part in ("labels", "records", "operator", "gangs")] == [True] * 4
        fails = {part: spec["failurePolicy"] for part, spec in policies.items()}
        ours = {"operator": "Fail", "gangs": "Fail", "authors": "Fail"}
        assert fails == ours | {"labels": "Ignore", "records": "Ignore"}
        where = {
            body["spec"]["policyName"].partition("-")[2]: body["spec"].get("matchResources")
            for body in of_kind(found, f"{POLICY}Binding")
        }
        served = all_values()[name].get("watchNamespaces")
        only = {"key": names.LABEL_NAMESPACE_NAME, "operator": "In", "values": served}
        selected = {"namespaceSelector": {"matchExpressions": [only]}} if served else None
        everywhere, there = (
            dict.fromkeys(("operator", "gangs")),
            dict.fromkeys(("labels", "records", "authors"), selected),
        )
        assert where == everywhere | there


def rights_of_a_rule(rule: permissions.Rule) -> set[Right]:
    return {(group, resource, verb) for group in rule.groups for resource in rule.resources for verb in rule.verbs}


def rights_of_the_operator(found: list[Object]) -> dict[str, set[Right]]:
    """What is bound to its ServiceAccount, by namespace; everywhere is ''."""
    (deployment,) = of_kind(found, "Deployment")
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    rights: dict[str, set[Right]] = {}
    for binding in (body for body in found if body["kind"].endswith("RoleBinding")):
        if account not in {subject["name"] for subject in binding["subjects"]}:
            continue
        place = binding["metadata"].get("namespace", "")
        reference = binding["roleRef"]
        if reference["name"] == REVIEWS:
            rights.setdefault(REVIEWS, set())
            continue
        (role,) = (
            body
            for body in of_kind(found, reference["kind"])
            if (body["metadata"]["name"], body["metadata"].get("namespace", "")) == (reference["name"], place)
        )
        for rule in role["rules"]:
            assert set(rule) == {"apiGroups", "resources", "verbs"}
            rights.setdefault(place, set()).update(
                rights_of_a_rule(
                    permissions.Rule(tuple(rule["apiGroups"]), tuple(rule["resources"]), tuple(rule["verbs"]), why="")
                )
            )
    return rights


def test_who_may_view_a_namespace_may_read_studies_and_who_may_edit_it_may_write_them(rendered: Rendered) -> None:
    roles = {
        body["metadata"]["name"]: body
        for body in of_kind(manifests(rendered, "default"), "ClusterRole")
        if body["metadata"]["labels"]["app.kubernetes.io/component"] == "people"
    }
    to = {
        name: {label.partition("aggregate-to-")[2] for label in body["metadata"]["labels"] if "aggregate-to-" in label}
        for name, body in roles.items()
    }
    assert to == {
        "gpubench-view": {"view", "edit", "admin"},
        "gpubench-edit": {"edit", "admin"},
        "gpubench-pools": set(),
    }
    (edit,) = roles["gpubench-edit"]["rules"]
    # Neither pools nor what the operator has found.
    assert edit["resources"] == sorted(kind.plural for kind in schema.KINDS if kind.scope == "Namespaced")
    assert names.BENCHMARK_PLURAL in edit["resources"]
    writing = {"create", "delete", "deletecollection", "patch", "update"}
    assert set(edit["verbs"]) == writing
    assert not writing & {verb for rule in roles["gpubench-view"]["rules"] for verb in rule["verbs"]}


def test_everything_of_a_namespace_says_which_and_has_no_name_too_long(rendered: Rendered) -> None:
    everywhere = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass"}
    everywhere |= {"ClusterPodMonitoring", "ClusterRules", POLICY, f"{POLICY}Binding"}
    for name in value_sets.TAKEN:
        seen = set()
        for body in manifests(rendered, name):
            metadata = body["metadata"]
            assert ("namespace" in metadata) == (body["kind"] not in everywhere), (name, body["kind"])
            assert len(metadata["name"]) <= (253 if body["kind"] == "PriorityClass" else 63)
            assert all(len(value) <= 63 for value in metadata.get("labels", {}).values())
            key = (body["kind"], metadata.get("namespace"), metadata["name"])
            assert key not in seen, (name, key)
            seen.add(key)


def test_what_selects_the_operator_is_on_its_pods_whatever_labels_are_set(rendered: Rendered) -> None:
    for name in value_sets.TAKEN:
        found = manifests(rendered, name)
        (deployment,) = of_kind(found, "Deployment")
        labels = deployment["spec"]["template"]["metadata"]["labels"].items()
        selectors = [deployment["spec"]["selector"]["matchLabels"]]
        selectors += [body["spec"]["selector"] for body in of_kind(found, "Service")]
        selectors += [body["spec"]["podSelector"]["matchLabels"] for body in of_kind(found, "NetworkPolicy")]
        selectors += [body["spec"]["selector"]["matchLabels"] for body in of_kind(found, "PodDisruptionBudget")]
        assert all(selector.items() <= labels for selector in selectors), name


def test_every_operator_that_is_rendered_accepts_its_settings(rendered: Rendered) -> None:
    for name in all_values():
        (deployment,) = of_kind(manifests(rendered, name), "Deployment")
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        variables = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        assert len(variables) == len(container["env"]), name  # none is named twice
        loaded = settings.load(variables | {"POD_NAMESPACE": "gpubench-system"})
        assert loaded.watch_namespaces == tuple(all_values()[name].get("watchNamespaces", ())), name
        assert loaded.lease_namespace == "gpubench-system"


def test_who_lists_only_names_of_kubernetes_lists_all_of_them() -> None:
    """The schema of values refuses a misspelt field of a pod, and must know those of every version."""
    checked = json.loads((rendering.CHART / "values.schema.json").read_text(encoding="utf-8"))["definitions"]
    known: dict[str, set[str]] = {}
    for version in openapi_schemas.KUBERNETES:
        schemas = json.loads((openapi_schemas.HERE / f"kubernetes-{version}.json").read_text(encoding="utf-8"))
        for name, found in schemas["definitions"].items():
            known.setdefault(name.rpartition(".")[2], set()).update(found.get("properties", ()))
    listed = {name: set(found["properties"]) for name, found in checked.items() if name in known}
    assert {"Volume", "Container", "PodSecurityContext"} <= set(listed)
    assert listed == {name: known[name] for name in listed}


def container_of(found: list[Object]) -> Object:
    container: Object = of_kind(found, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]
    return container


def test_probes_and_spread_are_what_the_values_say(rendered: Rendered) -> None:
    patient = container_of(manifests(rendered, "patient-probes"))
    get = {"path": "/healthz", "port": "metrics"}
    assert patient["startupProbe"] == {"httpGet": get, "periodSeconds": 2, "failureThreshold": 150}
    slow = {"periodSeconds": 10, "failureThreshold": 6, "initialDelaySeconds": 30, "timeoutSeconds": 10}
    assert patient["livenessProbe"] == {"httpGet": get, **slow}
    assert "readinessProbe" not in patient
    assert container_of(manifests(rendered, "default"))["readinessProbe"]["httpGet"]["path"] == "/readyz"

    def spread(name: str) -> list[tuple[str, set[str]]]:
        pod = of_kind(manifests(rendered, name), "Deployment")[0]["spec"]["template"]["spec"]
        constraints = pod.get("topologySpreadConstraints", [])
        return [(one["topologyKey"], set(one["labelSelector"]["matchLabels"])) for one in constraints]

    own = {f"app.kubernetes.io/{part}" for part in ("name", "instance", "component")}
    host, zone = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
    assert (spread("default"), spread("not-spread")) == ([(host, own)], [])
    assert spread("spread-over-zones") == [(zone, own), (host, {"app.kubernetes.io/component"})]


def test_a_budget_of_disruptions_is_a_count_or_a_share_of_what_stays_or_goes(rendered: Rendered) -> None:
    def budget(name: str) -> Object:
        (found,) = of_kind(manifests(rendered, name), "PodDisruptionBudget")
        return {field: value for field, value in found["spec"].items() if field != "selector"}

    assert budget("three-replicas") == {"minAvailable": 2}
    assert budget("half-of-them-stay") == {"minAvailable": "50%"}
    assert budget("one-may-go") == {"maxUnavailable": 1}
    assert budget("a-quarter-may-go") == {"maxUnavailable": "25%"}


def test_objects_and_containers_of_ones_own_are_part_of_the_release(rendered: Rendered) -> None:
    found = manifests(rendered, "objects-of-ones-own")
    (config,) = of_kind(found, "ConfigMap")
    assert (config["metadata"]["name"], config["metadata"]["namespace"]) == ("gpubench-ca", "gpubench-system")
    (scraper,) = [body for body in of_kind(found, "ServiceAccount") if body["metadata"]["name"] == "gpubench-scraper"]
    assert scraper["metadata"]["namespace"] == "team"
    (deployment,) = of_kind(manifests(rendered, "containers-of-ones-own"), "Deployment")
    assert [one["name"] for one in deployment["spec"]["template"]["spec"]["containers"]] == ["operator", "proxy"]


def test_a_mirror_replaces_the_registry_of_both_images(rendered: Rendered) -> None:
    def images(name: str) -> tuple[str, str]:
        container = container_of(manifests(rendered, name))
        (jobs,) = [entry["value"] for entry in container["env"] if entry["name"] == "GPUBENCH_JOBS_IMAGE"]
        return container["image"], jobs

    mirror = "mirror.example.com:5000/hub/ml/gpubench"
    assert images("images-of-a-mirror") == (f"{mirror}-operator@{value_sets.DIGEST}", f"{mirror}-jobs:0.1.0")
    own = ("[fd00::1]:5000/ml/gpubench-operator:0.1.0", f"localhost/gpubench-jobs:Rc_1@{value_sets.DIGEST}")
    assert images("registry-by-its-address") == own


def test_monitors_have_limits_rules_and_a_namespace_of_their_own(rendered: Rendered) -> None:
    def monitors(name: str) -> tuple[Object, Object]:
        found = manifests(rendered, name)
        (service,), (pods,) = of_kind(found, "ServiceMonitor"), of_kind(found, "PodMonitor")
        return service, pods

    service, pods = monitors("monitors-of-another-namespace")
    assert (service["metadata"]["namespace"], pods["metadata"]["namespace"]) == ("monitoring", "monitoring")
    assert service["spec"]["namespaceSelector"] == {"matchNames": ["gpubench-system"]}
    assert (service["spec"]["sampleLimit"], pods["spec"]["sampleLimit"]) == (50000, 2000)
    endpoints = [*service["spec"]["endpoints"], *pods["spec"]["podMetricsEndpoints"]]
    assert [one["scrapeTimeout"] for one in endpoints] == ["25s", *["5s"] * 8]
    service, pods = monitors("fewer-series")
    endpoints = [*service["spec"]["endpoints"], *pods["spec"]["podMetricsEndpoints"]]
    assert [one["metricRelabelings"] for one in endpoints] == [value_sets.DROP] * (1 + 8)
    google = manifests(rendered, "prometheus-of-google-for-one-team")
    endpoints = [one for body in of_kind(google, "PodMonitoring") for one in body["spec"]["endpoints"]]
    assert [one["metricRelabeling"] for one in endpoints] == [value_sets.DROP] * (1 + 2 * 8)


def test_who_serves_some_namespaces_scrapes_gangs_of_these_only(rendered: Rendered) -> None:
    """Two releases that share a cluster would scrape every gang twice."""
    google = manifests(rendered, "prometheus-of-google-for-one-team")
    places = [
        body["metadata"]["namespace"]
        for body in of_kind(google, "PodMonitoring")
        if "gpubench.dev/component" in body["spec"]["selector"]["matchLabels"]
    ]
    assert (places, of_kind(google, "ClusterPodMonitoring")) == (["team-a", "team-b"], [])
    (monitor,) = of_kind(manifests(rendered, "monitors-of-one-team"), "PodMonitor")
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


def test_two_releases_share_no_object_but_the_crds(programs: dict[str, Path]) -> None:
    """As the README has them: another name, other namespaces, and one of them has the CRDs."""
    everything = {
        "crds": {"enabled": False},
        "rbac": {"drains": True, "poolReaders": ["ml"]},
        "jobs": {"priorityClass": {"create": True}},
        "dashboards": {"enabled": True, "namespace": "monitoring"},
        "metrics": {
            "tls": {"secretName": "tls"},
            "authorization": {"tokenReview": True},
            **{name: {"enabled": True} for name in ("serviceMonitor", "podMonitor", "prometheusRule")},
        },
    }

    def keys(release: str) -> set[tuple[str, str | None, str]]:
        values = everything | {"watchNamespaces": [release]}
        found = rendering.objects(rendering.template(programs["helm4"], values, release=release))
        return {(body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"]) for body in found}

    first, second = keys("team-a"), keys("team-b")
    assert len(first) == len(second) > 20
    assert not first & second


def test_the_operator_is_told_which_priority_class_there_is(rendered: Rendered) -> None:
    def told(name: str) -> tuple[str, list[str]]:
        found = manifests(rendered, name)
        (deployment,) = of_kind(found, "Deployment")
        env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        variable = "GPUBENCH_GANG_PRIORITY_CLASS"
        said = next((entry["value"] for entry in env if entry["name"] == variable), "")
        return said, [body["metadata"]["name"] for body in of_kind(found, "PriorityClass")]

    assert told("default") == ("", [])
    own = "gpubench-gangs-1000000000"  # neither value nor policy of a PriorityClass can be changed
    assert told("own-priority-of-gangs") == (own, [own])
    assert told("priority-that-is-there") == ("measuring", [])
    assert told("priority-that-preempts") == ("m", ["m"])


def test_an_image_by_digest_is_not_called_by_a_tag(rendered: Rendered) -> None:
    found = manifests(rendered, "image-by-digest")
    (deployment,), (test,) = of_kind(found, "Deployment"), of_kind(found, "Pod")
    image = f"registry.example.com:5000/ml/gpubench-operator@{value_sets.DIGEST}"
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == image
    assert test["spec"]["containers"][0]["image"] == image


def security_contexts(found: list[Object]) -> list[tuple[Object, Object]]:
    """Of the pods of operator and test, and of their containers."""
    pods = [of_kind(found, "Deployment")[0]["spec"]["template"]["spec"], of_kind(found, "Pod")[0]["spec"]]
    return [(pod["securityContext"], pod["containers"][0]["securityContext"]) for pod in pods]


def test_on_openshift_no_user_and_no_group_are_named(programs: dict[str, Path], rendered: Rendered) -> None:
    values: Object = {"crds": {"enabled": False}}
    openshift = rendering.objects(rendering.template(programs["helm4"], values, apis=OPENSHIFT))
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    assert security_contexts(openshift) == [(restricted, closed)] * 2
    elsewhere = restricted | {"runAsUser": 65532, "runAsGroup": 65532}
    assert security_contexts(manifests(rendered, "default")) == [(elsewhere, closed)] * 2

    named = {"podSecurityContext": {"runAsUser": 1000}, **values}
    own_user = rendering.objects(rendering.template(programs["helm4"], named, apis=OPENSHIFT))
    assert security_contexts(own_user) == [(restricted | {"runAsUser": 1000}, closed)] * 2
    without = security_contexts(manifests(rendered, "users-by-the-namespace"))
    assert without == [(restricted, closed)] * 2  # what `helm template` writes knows no cluster
    assert security_contexts(manifests(rendered, "no-security-contexts")) == [({}, {})] * 2

    def results_group(found: list[Object]) -> list[str]:
        env = of_kind(found, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0]["env"]
        return [entry["value"] for entry in env if entry["name"] == "GPUBENCH_RESULTS_GROUP"]

    assert (results_group(openshift), results_group(manifests(rendered, "default"))) == (["0"], [])
    values |= {"settings": {"resultsGroup": 1000700000}}
    own = rendering.template(programs["helm4"], values, apis=OPENSHIFT)
    assert results_group(rendering.objects(own)) == ["1000700000"]


def test_a_security_context_of_ones_own_lies_over_the_charts(rendered: Rendered) -> None:
    for pod, container in security_contexts(manifests(rendered, "security-contexts-of-ones-own")):
        assert (pod["runAsUser"], pod["runAsGroup"], pod["fsGroup"], pod["runAsNonRoot"]) == (1000, 65532, 1000, True)
        assert (container["seLinuxOptions"], container["readOnlyRootFilesystem"]) == ({"level": "s0:c1,c2"}, True)


def test_the_service_takes_the_families_of_the_cluster_unless_they_are_named(rendered: Rendered) -> None:
    def families(name: str) -> tuple[str, list[str] | None]:
        (service,) = of_kind(manifests(rendered, name), "Service")
        return service["spec"]["ipFamilyPolicy"], service["spec"].get("ipFamilies")

    assert families("default") == ("PreferDualStack", None)
    assert families("ipv6-only") == ("SingleStack", ["IPv6"])
    (deployment,) = of_kind(manifests(rendered, "ipv6-only"), "Deployment")
    assert "GPUBENCH_METRICS_ADDRESS" not in str(deployment)  # its default is every address of both


def rules_of(found: list[Object], kind: str) -> dict[str, list[Object]]:
    """By the name of their group."""
    return {group["name"]: group["rules"] for body in of_kind(found, kind) for group in body["spec"]["groups"]}


def test_without_values_of_ones_own_the_rules_are_those_of_the_files(rendered: Rendered) -> None:
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(DASHBOARDS.glob("rules/*.yaml"))]
    written = {group["name"]: group["rules"] for document in files for group in document["groups"]}
    assert rules_of(manifests(rendered, "dashboards-and-rules"), "PrometheusRule") == written


@pytest.mark.parametrize("kind", ["PrometheusRule", "ClusterRules"])
def test_thresholds_times_and_labels_of_alerts_are_values_and_each_can_be_left_out(
    rendered: Rendered, kind: str
) -> None:
    before = rules_of(manifests(rendered, "dashboards-and-rules"), "PrometheusRule")["gpubench-alerts"]
    found = {
        rule["alert"]: rule for rule in rules_of(manifests(rendered, "alerts-of-ones-own"), kind)["gpubench-alerts"]
    }
    assert {rule["alert"] for rule in before} - found.keys() == {"GpubenchPriceStale"}
    own = {rule["alert"] for rule in before if rule["expr"] != found.get(rule["alert"], rule)["expr"]}
    assert own == {"GpubenchEfficiencyBelowTarget", "GpubenchScheduleWithoutSuccess"}
    low, without = found["GpubenchEfficiencyBelowTarget"], found["GpubenchScheduleWithoutSuccess"]
    assert " < 0.55\n" in low["expr"]
    assert without["expr"].endswith(" > 0")
    assert (low["for"], without["for"]) == ("1h", "5m")
    assert (low["labels"], without["labels"]) == (
        {"severity": "critical", "team": "ml"},
        {"severity": "warning", "team": "ml"},
    )
    assert without.get("keep_firing_for") == ("2d" if kind == "PrometheusRule" else None)
    for name, rule in found.items():
        assert rule["annotations"]["runbook_url"] == f"https://wiki.example.com/gpubench#{name.lower()}"
        assert {"summary", "description", "action"} <= rule["annotations"].keys()


def test_managed_prometheus_has_the_rules_of_everybody_else(rendered: Rendered) -> None:
    google, others = manifests(rendered, "prometheus-of-google"), manifests(rendered, "dashboards-and-rules")
    without = {
        name: [{field: value for field, value in rule.items() if field != "keep_firing_for"} for rule in rules]
        for name, rules in rules_of(others, "PrometheusRule").items()
    }
    assert rules_of(google, "ClusterRules") == without  # its API has no such field
    assert (of_kind(google, "PrometheusRule"), of_kind(others, "ClusterRules")) == ([], [])


def test_dashboards_and_rules_become_objects_as_they_are(programs: dict[str, Path], tmp_path: Path) -> None:
    """Also where they have what Helm would take for its own."""
    chart = tmp_path / "gpubench"
    shutil.copytree(rendering.CHART, chart)
    board, rule = '{"title": "{{ workload }}", "legend": "{{rank}}"}', "{{ $labels.namespace }} is {{ $value }}"
    alert = {"alert": "A", "expr": "up == 0", "labels": {"severity": "info"}, "annotations": {"summary": rule}}
    page = {"runbook_url": "dashboards/RUNBOOKS.md#a"}
    for folder in ("dashboards", "rules"):
        shutil.rmtree(chart / "files" / folder, ignore_errors=True)
        (chart / "files" / folder).mkdir()
    (chart / "files" / "dashboards" / "one_study.json").write_text(board, encoding="utf-8")
    groups = {"groups": [{"name": "g", "rules": [alert]}]}
    (chart / "files" / "rules" / "alerts.yaml").write_text(yaml.safe_dump(groups), encoding="utf-8")
    values = {
        "dashboards": {"enabled": True, "namespace": "monitoring", "annotations": {"folder": "GPU"}},
        "metrics": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}},
    }
    texts = rendering.template(programs["helm4"], values, chart=chart)
    found = rendering.objects(texts)
    (config,), (rules,) = of_kind(found, "ConfigMap"), of_kind(found, "PrometheusRule")
    assert (config["metadata"]["name"], config["metadata"]["namespace"]) == (
        "gpubench-dashboard-one-study",
        "monitoring",
    )
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["data"] == {"one_study.json": board}
    alert["annotations"] = {"summary": rule, **page}
    assert rules["spec"] == groups
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    location = openapi_schemas.write_for_kubeconform(openapi_schemas.KUBERNETES[-1], tmp_path / "schemas")
    assert invalid(programs, texts, location=location, folder=tmp_path / "manifests") == {}


def test_the_chart_has_copies_of_all_dashboards_and_rules_and_no_other_ones() -> None:
    thresholds_apart = "alerts.yaml"
    for folder, pattern in (("dashboards", "*.json"), ("rules", "rules/*.yaml")):
        copies = {path.name: path.read_bytes() for path in (rendering.CHART / "files" / folder).glob("*")}
        originals = {path.name: path.read_bytes() for path in DASHBOARDS.glob(pattern)}
        assert copies.keys() == originals.keys()
        assert {name for name in copies if copies[name] != originals[name]} <= {thresholds_apart}
        assert copies


def test_the_dashboards_and_rules_of_the_chart_are_rendered_with_the_series_that_they_ask_for(
    programs: dict[str, Path],
) -> None:
    enabled = {"enabled": True}
    values = {"dashboards": enabled, "metrics": {"prometheusRule": enabled, "podMonitor": enabled}}
    found = rendering.objects(rendering.template(programs["helm4"], values))
    boards = [json.loads(text) for body in of_kind(found, "ConfigMap") for text in body["data"].values()]
    assert {board["uid"] for board in boards} == {path.stem for path in DASHBOARDS.glob("*.json")}
    groups = [group["name"] for body in of_kind(found, "PrometheusRule") for group in body["spec"]["groups"]]
    assert sorted(groups) == ["gpubench-alerts", "gpubench-recording"]
    (monitor,) = of_kind(found, "PodMonitor")
    for endpoint in monitor["spec"]["podMetricsEndpoints"]:
        added = {rule["targetLabel"] for rule in endpoint["relabelings"]}
        assert added | {"pod"} == set(metrics.TARGET_LABELS)  # which is the Prometheus operator's


def test_the_schema_knows_every_value_and_lets_no_other_through() -> None:
    checked = json.loads((rendering.CHART / "values.schema.json").read_text(encoding="utf-8"))
    for row in chart_page.table((rendering.CHART / "values.yaml").read_text(encoding="utf-8")):
        place = checked
        for part in row.path.split("."):
            if "$ref" in place:
                place = checked["definitions"][place["$ref"].rpartition("/")[2]]
            assert place.get("additionalProperties") is False or row.path.startswith("global."), row.path
            place = place["properties"][part]


def test_a_value_that_is_null_is_refused_by_name_or_as_if_it_were_empty(programs: dict[str, Path]) -> None:
    """Helm takes a value that is null away, and what a template does not find is an error in Helm's words."""
    default = yaml.safe_load((rendering.CHART / "values.yaml").read_text(encoding="utf-8"))
    checked = json.loads((rendering.CHART / "values.schema.json").read_text(encoding="utf-8"))

    def without(values: dict[str, Any], place: Object) -> dict[str, Any]:
        """Null where that is no error, and what is on where something has to be rendered."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, dict) and name in place.get("required", ()):
                found[name] = without(value, place["properties"][name])
            elif name == "enabled":
                found[name] = name != "podMonitoring"
            elif name not in place.get("required", ()):
                found[name] = None
        return found

    nulls = without(default, checked) | {"replicas": 2, "crds": {"enabled": False}}
    assert nulls["metrics"]["serviceMonitor"]["labels"] is None
    for text in rendering.template(programs["helm4"], nulls):
        own = re.sub(r"\.json: .*", "", text)  # not in a dashboard, where null has a meaning
        assert not re.search(r"[^']\bnull\b|no value|<nil>", own), own
        assert None not in values_of(parsed(text)), text


def values_of(body: Any) -> Iterator[Any]:
    below = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    for one in below:
        yield from values_of(one)
    if not isinstance(body, dict | list):
        yield body


def test_every_setting_of_the_operator_is_a_value_of_its_own_or_a_setting_of_the_chart() -> None:
    checked = json.loads((rendering.CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert set(settings.Settings.model_fields) >= chart_page.OF_OTHER_VALUES
    assert len(checked["properties"]["settings"]["properties"]) == len(settings.Settings.model_fields) - len(
        chart_page.OF_OTHER_VALUES
    )


def test_chart_and_program_have_one_version_and_the_annotations_name_the_crds() -> None:
    chart = yaml.safe_load((rendering.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (rendering.CHART.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^version = "(.*)"$', project, re.MULTILINE)[1] == chart["appVersion"]  # type: ignore[index]
    told = annotation(chart, "crds")
    assert {(one["kind"], one["name"]) for one in told} == {
        (kind.kind, f"{kind.plural}.{names.GROUP}") for kind in schema.KINDS
    }


def annotation(chart: Object, name: str) -> Any:
    """What Artifact Hub reads, which is YAML in a text."""
    return yaml.safe_load(chart["annotations"][f"artifacthub.io/{name}"])


def test_artifact_hub_is_told_images_changes_and_examples_that_the_api_takes(rendered: Rendered) -> None:
    chart = yaml.safe_load((rendering.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    images = {one["name"]: one["image"] for one in annotation(chart, "images")}
    jobs = f"{names.JOBS_IMAGE}:{chart['appVersion']}"
    assert images == {"operator": container_of(manifests(rendered, "default"))["image"], "jobs": jobs}
    assert {one["kind"] for one in annotation(chart, "changes")} <= {"added", "changed", "fixed", "removed", "security"}
    examples = annotation(chart, "crdsExamples")
    kinds = {kind.kind: kind for kind in schema.KINDS}
    assert {example["kind"] for example in examples} == set(kinds)
    assert [problem for one in examples for problem in validate.problems_of(one, kinds[one["kind"]])] == []
    project = tomllib.loads((rendering.CHART.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["annotations"]["artifacthub.io/license"] == project["license"]
    assert all(one["name"] for one in chart["maintainers"])
    picture = base64.b64decode(chart["icon"].partition("base64,")[2])
    assert b"<svg " in picture
