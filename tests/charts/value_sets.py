# SPDX-License-Identifier: Apache-2.0
"""What people set: values that the chart takes, and values that it refuses, with a word of the refusal."""

from typing import Any

Values = dict[str, Any]

DIGEST = f"sha256:{'0123456789abcdef' * 4}"

DROP = [{"action": "drop", "sourceLabels": ["__name__"], "regex": "gpubench_worker_.*"}]

#: By name. None is the default: that one is pinned beside this file.
TAKEN: dict[str, Values] = {
    "default": {},
    "another-name": {"nameOverride": "bench", "commonLabels": {"team": "ml"}},
    "full-name-and-annotations": {"fullnameOverride": "x" * 50, "commonAnnotations": {"example.com/owner": "ml"}},
    "labels-that-are-taken": {
        "commonLabels": {"app.kubernetes.io/name": "other", "app.kubernetes.io/managed-by": "me", "n": "1"},
        "podLabels": {"app.kubernetes.io/instance": "other"},
    },
    "image-by-digest": {
        "image": {"repository": "registry.example.com:5000/ml/gpubench-operator", "digest": DIGEST},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "image-by-tag": {"image": {"repository": "gpubench-operator", "tag": "0.2.0-rc.1", "pullPolicy": "Always"}},
    "own-priority-of-gangs": {"jobs": {"image": "gangs:1", "priorityClass": {"create": True, "value": 1000000000}}},
    "priority-that-is-there": {"jobs": {"priorityClass": {"name": "measuring"}}},
    "priority-that-preempts": {
        "jobs": {"priorityClass": {"create": True, "name": "m", "preemptionPolicy": "PreemptLowerPriority"}}
    },
    "without-crds": {"crds": {"enabled": False}},
    "crds-go": {"crds": {"keep": False}},
    "release-of-a-team": {"crds": {"enabled": False}, "fullnameOverride": "team-a", "watchNamespaces": ["team-a"]},
    "two-namespaces": {"watchNamespaces": ["team-a", "team-b"]},
    "its-own-namespace-and-drains": {"watchNamespaces": ["gpubench-system"], "rbac": {"drains": True}},
    "drains": {"rbac": {"drains": True}},
    "people-who-read-pools": {"rbac": {"poolReaders": ["system:authenticated", "ml"]}},
    "three-replicas": {"replicas": 3, "podDisruptionBudget": {"enabled": True, "minAvailable": 2}},
    "half-of-them-stay": {"replicas": 4, "podDisruptionBudget": {"enabled": True, "minAvailable": "50%"}},
    "one-may-go": {"replicas": 2, "podDisruptionBudget": {"enabled": True, "maxUnavailable": 1}},
    "a-quarter-may-go": {"replicas": 3, "podDisruptionBudget": {"enabled": True, "maxUnavailable": "25%"}},
    "stopped": {"replicas": 0},
    "roles-by-others": {"rbac": {"create": False, "aggregate": False}},
    "policies-without-roles": {"rbac": {"create": False}, "policies": {"enabled": True}},
    "policies-of-others": {"policies": {"enabled": False}},
    "policies-of-ones-own": {
        "watchNamespaces": ["team-a"],
        "policies": {
            "jobControllers": ["system:serviceaccount:kube-system:job-controller"],
            "allow": {
                "images": ["registry.example.com/ml/*"],
                "hostPaths": ["/srv/data", "/mnt/*"],
                "annotations": ["networking.gke.io/*", "k8s.v1.cni.cncf.io/networks"],
                "serviceAccounts": ["team-a/reads-data", "*/bench", "team-b/*"],
                "drills": ["team-*"],
                "drains": [],
            },
        },
    },
    "account-by-others": {"serviceAccount": {"create": False, "name": "gpubench-by-terraform"}},
    "account-of-a-cloud": {
        "serviceAccount": {"name": "bench", "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/b"}}
    },
    "text-log": {"log": {"format": "text", "level": "debug"}},
    "settings": {
        "settings": {
            "resyncSeconds": 60,
            "statusIntervalSeconds": 0.5,
            "jobTtlSeconds": 604800,
            "workers": 16,
            "metricsAddress": "0.0.0.0",  # noqa: S104
        }
    },
    "environment-and-volumes": {
        "extraEnv": [
            {"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/own", "readOnly": True}],
    },
    "containers-of-ones-own": {
        "extraContainers": [
            {
                "name": "proxy",
                "image": "proxy:1",
                "args": ["--listen", "8443"],
                "ports": [{"name": "https", "containerPort": 8443}],
                "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            }
        ]
    },
    "objects-of-ones-own": {
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": '{{ include "gpubench.fullname" . }}-ca', "namespace": "{{ .Release.Namespace }}"},
                "data": {"version": "{{ .Chart.AppVersion }}"},
            },
            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: '{{ .Release.Name }}-scraper', namespace: team}\n",
        ]
    },
    "nothing-reserved": {"resources": {"requests": None, "limits": None}},
    "huge-pages-and-a-claim": {
        "resources": {
            "requests": {"hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi", "example.com/thing": 1},
            "limits": {"hugepages-2Mi": "4Mi", "example.com/thing": 1},
        },
    },
    "resources": {"resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}},
    "where-it-runs": {
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]
                }
            }
        },
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"example.com/scrape": "no"},
        "deploymentAnnotations": {"reloader": "yes"},
    },
    "security-contexts-of-ones-own": {
        "podSecurityContext": {"runAsUser": 1000, "fsGroup": 1000},
        "securityContext": {"seLinuxOptions": {"level": "s0:c1,c2"}},
    },
    "users-by-the-namespace": {"podSecurityContext": {"runAsUser": None, "runAsGroup": None}},
    "no-security-contexts": {"podSecurityContext": None, "securityContext": None},
    "patient-probes": {
        "startupProbe": {"failureThreshold": 150},
        "livenessProbe": {"initialDelaySeconds": 30, "timeoutSeconds": 10},
        "readinessProbe": None,
        "terminationGracePeriodSeconds": 60,
    },
    "spread-over-zones": {
        "replicas": 3,
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"},
            {
                "maxSkew": 2,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "operator"}},
            },
        ],
    },
    "not-spread": {"topologySpreadConstraints": []},
    "null-is-nothing": dict.fromkeys(("commonLabels", "nodeSelector", "tolerations", "podAnnotations", "affinity")),
    "dual-stack": {"metrics": {"service": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}}},
    "ipv6-only": {"metrics": {"service": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}}},
    "no-service": {"metrics": {"service": {"enabled": False}}},
    "prometheus-operator": {
        "metrics": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "podMonitor": {"enabled": True, "interval": "5s", "workersPerNode": 16},
        },
        "watchNamespaces": ["team-a"],
    },
    "monitors-of-another-namespace": {
        "metrics": {
            "serviceMonitor": {
                "enabled": True,
                "namespace": "monitoring",
                "scrapeTimeout": "25s",
                "sampleLimit": 50000,
            },
            "podMonitor": {"enabled": True, "namespace": "monitoring", "scrapeTimeout": "5s", "sampleLimit": 2000},
        }
    },
    "fewer-series": {
        "metrics": {
            "serviceMonitor": {"enabled": True, "metricRelabelings": DROP},
            "podMonitor": {"enabled": True, "metricRelabelings": DROP},
        }
    },
    "monitors-of-one-team": {
        "watchNamespaces": ["team-a", "team-b"],
        "metrics": {"podMonitor": {"enabled": True, "workersPerNode": 1}, "podMonitoring": {"enabled": False}},
    },
    "https-known-in-another-namespace": {
        "metrics": {
            "tls": {"secretName": "operator-tls"},
            "serviceMonitor": {"enabled": True, "namespace": "monitoring", "tlsConfig": {"insecureSkipVerify": True}},
        }
    },
    "https-and-tokens": {
        "metrics": {
            "tls": {"secretName": "operator-tls"},
            "authorization": {"tokenReview": True},
            "serviceMonitor": {"enabled": True},
        },
    },
    "https-known-otherwise": {
        "metrics": {
            "tls": {"secretName": "operator-tls"},
            "authorization": {"tokenReview": True},
            "serviceMonitor": {
                "enabled": True,
                "tlsConfig": {"insecureSkipVerify": True},
                "authorization": {"credentials": {"name": "token", "key": "token"}},
            },
        },
        "rbac": {"create": False},
    },
    "prometheus-of-google": {"metrics": {"podMonitoring": {"enabled": True, "workersPerNode": 10}}},
    "prometheus-of-google-for-one-team": {
        "watchNamespaces": ["team-a", "team-b"],
        "metrics": {"podMonitoring": {"enabled": True, "interval": "1m", "metricRelabelings": DROP}},
    },
    "dashboards-and-rules": {
        "dashboards": {"enabled": True, "namespace": "monitoring", "annotations": {"grafana_folder": "GPU"}},
        "metrics": {"prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}}},
    },
    "alerts-of-ones-own": {
        "metrics": {
            "prometheusRule": {"enabled": True},
            "podMonitoring": {"enabled": True},
            "rules": {
                "runbookUrl": "https://wiki.example.com/gpubench",
                "disabled": {"GpubenchPriceStale": True, "GpubenchStraggler": False},
                "alerts": {
                    "GpubenchEfficiencyBelowTarget": {"threshold": 0.55, "severity": "critical", "for": "1h"},
                    "GpubenchScheduleWithoutSuccess": {"threshold": 0, "keepFiringFor": "2d"},
                },
                "additionalRuleLabels": {"team": "ml", "severity": "none"},
            },
        }
    },
    "closed-network": {
        "metrics": {"namespaces": ["monitoring"]},
        "networkPolicy": {
            "from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}, {"to": [{"ipBlock": {"cidr": "10.1.0.1/32"}}]}],
        },
    },
    "open-network": {"networkPolicy": {"enabled": False}},
    "part-of-another-chart": {"global": {"storageClass": "fast", "imageRegistry": ""}},
    "images-of-a-mirror": {
        "global": {"imageRegistry": "mirror.example.com:5000/hub/"},
        "image": {"repository": "registry.example.com/ml/gpubench-operator", "digest": DIGEST},
        "jobs": {"image": "ml/gpubench-jobs:0.1.0"},
    },
    "registry-by-its-address": {
        "image": {"repository": "[fd00::1]:5000/ml/gpubench-operator"},
        "jobs": {"image": f"localhost/gpubench-jobs:Rc_1@{DIGEST}"},
    },
}

#: Values, and what the refusal must say.
REFUSED: dict[str, tuple[Values, str]] = {
    "misspelt": ({"replicaCount": 2}, "additional properties 'replicaCount' not allowed"),
    "misspelt-below": ({"image": {"repo": "x"}}, "at '/image': additional properties 'repo' not allowed"),
    "no-number": ({"replicas": "two"}, "at '/replicas': got string, want integer"),
    "too-many": ({"replicas": 11}, "at '/replicas': maximum: got 11, want 10"),
    "half-a-digest": ({"image": {"digest": "sha256:0123"}}, "at '/image/digest': 'sha256:0123' does not match"),
    "tag-in-repository": (
        {"image": {"repository": "operator:1"}},
        "image.repository: operator:1 has a tag or a digest: put it into image.tag or image.digest",
    ),
    "registry-that-nobody-filled-in": (
        {"image": {"repository": "REGISTRY/gpubench-operator"}},
        "image.repository: REGISTRY/gpubench-operator:0.1.0 is no image: write REGISTRY/PATH with your own registry",
    ),
    "registry-of-jobs-that-nobody-filled-in": (
        {"jobs": {"image": "REGISTRY/gpubench-jobs:0.1.0"}},
        "jobs.image: REGISTRY/gpubench-jobs:0.1.0 is no image: write REGISTRY/PATH with your own registry",
    ),
    "mirror-in-upper-case": (
        {"global": {"imageRegistry": "MIRROR"}},
        "image.repository: MIRROR/gpubench-operator:0.1.0 is no image",
    ),
    "section-that-is-null": ({"metrics": {"service": None}}, "at '/metrics': missing property 'service'"),
    "value-that-is-null": ({"metrics": {"podMonitor": {"interval": None}}}, "missing property 'interval'"),
    "misspelt-resource": (
        {"resources": {"limits": {"memroy": "1Gi"}}},
        "at '/resources/limits': additional properties 'memroy' not allowed",
    ),
    "misspelt-volume": (
        {"extraVolumes": [{"name": "ca", "configmap": {"name": "ca"}}]},
        "at '/extraVolumes/0': additional properties 'configmap' not allowed",
    ),
    "misspelt-security-context": (
        {"podSecurityContext": {"runAsUsr": 1}},
        "at '/podSecurityContext': additional properties 'runAsUsr' not allowed",
    ),
    "path-of-a-probe": (
        {"livenessProbe": {"httpGet": {"path": "/"}}},
        "at '/livenessProbe': additional properties 'httpGet' not allowed",
    ),
    "relabeling": (
        {"metrics": {"serviceMonitor": {"metricRelabelings": [{"source_labels": ["a"]}]}}},
        "at '/metrics/serviceMonitor/metricRelabelings/0': additional properties 'source_labels' not allowed",
    ),
    "no-repository": ({"image": {"repository": ""}}, "at '/image/repository'"),
    "policy": ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy': value must be one of 'Always'"),
    "namespace": ({"watchNamespaces": ["Team_A"]}, "at '/watchNamespaces/0': 'Team_A' does not match pattern"),
    "namespace-twice": ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces': items at 0 and 1 are equal"),
    "no-setting": ({"settings": {"resync": 3}}, "at '/settings': additional properties 'resync' not allowed"),
    "setting-of-another-value": ({"settings": {"jobsImage": "x"}}, "additional properties 'jobsImage' not allowed"),
    "setting-out-of-bounds": ({"settings": {"workers": 0}}, "at '/settings/workers': minimum: got 0, want 1"),
    "label-that-is-no-text": ({"commonLabels": {"a": 1}}, "at '/commonLabels/a': got number, want string"),
    "interval": ({"metrics": {"podMonitor": {"interval": "10"}}}, "at '/metrics/podMonitor/interval'"),
    "more-than-google-takes": (
        {"metrics": {"podMonitoring": {"workersPerNode": 16}}},
        "at '/metrics/podMonitoring/workersPerNode': maximum: got 16, want 10",
    ),
    "family": (
        {"metrics": {"service": {"ipFamilies": ["IPv5"]}}},
        "at '/metrics/service/ipFamilies/0': value must be one of 'IPv4', 'IPv6'",
    ),
    "level": ({"log": {"level": "loud"}}, "at '/log/level': value must be one of 'debug'"),
    "dots-in-a-name": ({"fullnameOverride": "a.b"}, "at '/fullnameOverride': 'a.b' does not match pattern"),
    "account-without-name": (
        {"serviceAccount": {"create": False}},
        "serviceAccount.name: say which ServiceAccount the operator has, or set serviceAccount.create",
    ),
    "none-may-go": (
        {"podDisruptionBudget": {"enabled": True}},
        "podDisruptionBudget.minAvailable: with 1, 1 of 1 replicas must stay, so that no node could be drained",
    ),
    "none-of-two-may-go": (
        {"replicas": 2, "podDisruptionBudget": {"enabled": True, "minAvailable": "51%"}},
        "podDisruptionBudget.minAvailable: with 51%, 2 of 2 replicas must stay, so that no node could be drained",
    ),
    "share-that-is-none": (
        {"podDisruptionBudget": {"maxUnavailable": "0%"}},
        "at '/podDisruptionBudget/maxUnavailable': '0%' does not match pattern",
    ),
    "setting-as-environment": (
        {"extraEnv": [{"name": "GPUBENCH_WORKERS", "value": "3"}]},
        "extraEnv: GPUBENCH_WORKERS is the chart's to set: say it under settings, or by the value that is for it",
    ),
    "policies-by-a-word": (
        {"policies": {"enabled": "yes"}},
        "at '/policies/enabled': value must be one of 'auto', true, false",
    ),
    "account-without-namespace": (
        {"policies": {"allow": {"serviceAccounts": ["reads-data"]}}},
        "at '/policies/allow/serviceAccounts/0': 'reads-data' does not match pattern",
    ),
    "alert-that-is-none": (
        {"metrics": {"prometheusRule": {"enabled": True}, "rules": {"disabled": {"GpubenchIdle": True}}}},
        "metrics.rules: there is no alert GpubenchIdle: dashboards/RUNBOOKS.md has their names",
    ),
    "threshold-that-is-none": (
        {
            "metrics": {
                "prometheusRule": {"enabled": True},
                "rules": {"alerts": {"GpubenchOperatorDown": {"threshold": 1}}},
            }
        },
        "metrics.rules.alerts.GpubenchOperatorDown.threshold: this alert has none: leave it out",
    ),
    "quote-in-an-expression": (
        {"policies": {"allow": {"images": ['a" || "']}}},
        "at '/policies/allow/images/0'",
    ),
    "nobody-makes-pods": (
        {"policies": {"jobControllers": []}},
        "at '/policies/jobControllers': minItems: got 0, want 1",
    ),
    "token-in-clear-text": (
        {"metrics": {"authorization": {"tokenReview": True}}},
        "metrics.authorization.tokenReview needs metrics.tls.secretName: no token may cross the network in clear text",
    ),
    "certificate-of-another-namespace": (
        {
            "metrics": {
                "tls": {"secretName": "operator-tls"},
                "serviceMonitor": {"enabled": True, "namespace": "monitoring"},
            }
        },
        "metrics.serviceMonitor.namespace: metrics.tls.secretName is not there: say by metrics.serviceMonitor.tls",
    ),
}
