# SPDX-License-Identifier: Apache-2.0
"""From the types to the CustomResourceDefinitions: structural OpenAPI v3, as the API server demands it.

Pure functions; nothing is written here. The schema that comes out is the one that the API server evaluates and the one
that `validate` evaluates for study files, so no bound, default or rule may be added anywhere but on the types.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gpubench import names
from gpubench.api import benchmark, benchmark_status, pool, rules, schedule

Schema = dict[str, Any]

_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_API_VERSION = f"Group and version of the schema of this object: {_CONVENTIONS}#resources"
_KIND = f"Kind of this object, which cannot be changed: {_CONVENTIONS}#types-kinds"

_NOTHING: tuple[Any, ...] = (None, "", [], {})

# In the order in which they stand in a schema: what a reader asks first comes first.
_KEYWORDS = (
    "description", "type", "format", "default", "enum", "minimum", "maximum", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "minProperties", "maxProperties", "required", "properties", "items",
    "additionalProperties", "x-kubernetes-int-or-string",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations",
)  # fmt: skip


class Column(NamedTuple):
    """A column of `kubectl get`."""

    name: str
    type: str
    path: str
    description: str
    wide: bool = False


class Kind(NamedTuple):
    """One kind of object: its names, its types, and how `kubectl get` shows it."""

    kind: str
    plural: str
    short: str
    scope: str
    description: str
    root: type[BaseModel]
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()  # what `kubectl get --field-selector` takes


_AGE = Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created.")

POOL = Kind(
    kind=names.POOL_KIND,
    plural=names.POOL_PLURAL,
    short=names.POOL_SHORT,
    scope="Cluster",
    description="GpuPool is a place where training can run: how its nodes are found, what one of them holds, "
    "and what it costs. Benchmarks that have started keep the pool as it was.",
    root=pool.GpuPool,
    spec=pool.GpuPoolSpec,
    status=pool.GpuPoolStatus,
    columns=(
        Column("Accelerator", "string", ".spec.accelerator", "What the pool calls its accelerator."),
        Column("Capacity", "string", ".spec.capacityType", "How the nodes are rented."),
        Column("Slots", "integer", ".spec.slotsPerNode", "Ranks that one node holds."),
        Column("Ready-Nodes", "integer", ".status.readyNodes", "Nodes that are ready and take pods."),
        Column("Price/h", "string", ".status.pricePerNodeHour", "What a node costs in an hour."),
        _AGE,
        Column("Max-Nodes", "integer", ".spec.maxNodes", "Nodes that the pool can have at most.", wide=True),
        Column("Price-As-Of", "string", ".status.priceAsOf", "Day on which the price was read.", wide=True),
        Column(
            "Price-Stale",
            "string",
            ".status.conditions[?(@.type=='PriceStale')].status",
            "Price older than 90 days.",
            wide=True,
        ),
        Column("Owned-H/Month", "integer", ".spec.ownership.hoursPerMonth", "Hours an own node is used.", wide=True),
    ),
    selectable=(".spec.accelerator", ".spec.capacityType"),
)

BENCHMARK = Kind(
    kind=names.BENCHMARK_KIND,
    plural=names.BENCHMARK_PLURAL,
    short=names.BENCHMARK_SHORT,
    scope="Namespaced",
    description="GpuBenchmark is one benchmark: workloads times pools times workers times batch sizes, each measured "
    "several times. Its figures appear in its status. The spec cannot be changed, but for suspend, "
    "limits.parallelTrials, limits.budget, drill and ttlSecondsAfterFinished.",
    root=benchmark.GpuBenchmark,
    spec=benchmark.GpuBenchmarkSpec,
    status=benchmark_status.GpuBenchmarkStatus,
    columns=(
        Column("Status", "string", ".status.phase", "Where the benchmark stands."),
        Column("Points", "string", ".status.pointsDone", "Points that have ended, of all."),
        Column("Best-Pool", "string", ".status.best.shown.pool", "What to take for spec.objective."),
        Column("Cost", "string", ".status.best.shown.cost", "What its goal costs there, at least."),
        Column("Time", "string", ".status.best.shown.time", "How long its goal takes there, at least."),
        Column("Spent", "string", ".status.spent.shown", "What its attempts were billed so far, an estimate."),
        _AGE,
        Column("Trials", "integer", ".status.trials.finished", "Trials that have ended.", wide=True),
        Column("Attempts", "integer", ".status.attempts.started", "Jobs created so far.", wide=True),
        Column("Failed", "integer", ".status.attempts.failed", "Attempts that failed.", wide=True),
        Column("Preempted", "integer", ".status.attempts.preempted", "Attempts that lost a pod.", wide=True),
        Column("Message", "string", ".status.message", "Why nothing goes on, where nothing does."),
        Column("Answer", "string", ".status.answer", "What the figures say.", wide=True),
    ),
    selectable=(".status.phase", ".spec.queueName", ".spec.suspend"),
)

SCHEDULE = Kind(
    kind=names.SCHEDULE_KIND,
    plural=names.SCHEDULE_PLURAL,
    short=names.SCHEDULE_SHORT,
    scope="Namespaced",
    description="GpuBenchmarkSchedule runs a benchmark again and again, as a CronJob does a Job. It keeps the results "
    "of all runs, says since when and on which nodes the benchmark became slower, and what it costs a month.",
    root=schedule.GpuBenchmarkSchedule,
    spec=schedule.GpuBenchmarkScheduleSpec,
    status=schedule.GpuBenchmarkScheduleStatus,
    columns=(
        Column("Schedule", "string", ".spec.schedule", "When it runs."),
        Column("Suspend", "boolean", ".spec.suspend", "Whether no further run starts."),
        Column("Active", "integer", ".status.activeRuns", "Runs under way."),
        Column("Last-Schedule", "date", ".status.lastScheduleTime", "Time since the newest run was due."),
        Column("Regressed", "string", ".status.conditions[?(@.type=='Regressed')].status", "A point is slower."),
        Column("Month", "string", ".status.monthly.shown", "What it costs a month, an estimate."),
        _AGE,
        Column("Timezone", "string", ".spec.timeZone", "Time zone of the schedule, UTC if none.", wide=True),
        Column("Next", "string", ".status.nextScheduleTime", "When the next run is due.", wide=True),
        Column("Runs", "integer", ".status.runsKept", "Finished runs in the history.", wide=True),
    ),
    selectable=(".spec.suspend",),
)

KINDS: tuple[Kind, ...] = (POOL, BENCHMARK, SCHEDULE)
INSTALL = "upgrade the chart (crds.enabled), or kubectl apply -f charts/gpubench/files/crds"  # said where one is absent


def definition(kind: Kind) -> Schema:
    version: Schema = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": one.name, "type": one.type, "jsonPath": one.path, "description": one.description}
            | ({"priority": 1} if one.wide else {})
            for one in kind.columns
        ],
        "selectableFields": [{"jsonPath": path} for path in kind.selectable],
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _explained(object_schema(kind))},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [kind.short],
                "categories": [names.CATEGORY],
            },
            "scope": kind.scope,
            "versions": [version],
        },
    }


def object_schema(kind: Kind) -> Schema:
    """The schema of a whole object: what the API server adds, the spec and the status."""
    return {
        "description": kind.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": _API_VERSION, "type": "string"},
            "kind": {"description": _KIND, "type": "string"},
            # The bound is the API server's own; it is written here so that the cost of a rule about the name is known.
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": type_schema(kind.spec),
            "status": type_schema(kind.status),
        },
        "x-kubernetes-validations": _validations(kind.root),
    }


def type_schema(value_type: type[BaseModel]) -> Schema:
    """The structural schema of one type, with everything it refers to written out in place."""
    generated = value_type.model_json_schema(by_alias=True, schema_generator=_Generator)
    return _structural(generated, generated.pop("$defs", {}))


class _Generator(GenerateJsonSchema):
    """Pydantic's own generator, but for three things that a structural schema wants otherwise."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The rules of the type travel with it."""
        generated = super().model_schema(schema)
        if validations := _validations(schema["cls"]):
            generated["x-kubernetes-validations"] = validations
        return generated

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """An absent field is absent, never null."""
        return self.generate_inner(schema["schema"])

    def encode_default(self, dft: Any) -> Any:
        """A default object is written out: the API server evaluates its rules before inner defaults are filled in."""
        if isinstance(dft, BaseModel):
            return _without_nothing(dft.model_dump(mode="json", by_alias=True))
        return super().encode_default(dft)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """No default where the default is that there is nothing."""
        generated = super().default_schema(schema)
        if "default" in generated and generated["default"] in _NOTHING:
            del generated["default"]
        return generated


def field_paths(schema: Mapping[str, Any], *, path: str = "") -> Iterator[str]:
    """Every field by its path, such as `spec.sweep[].pools`."""
    for name, field in schema.get("properties", {}).items():
        yield (here := f"{path}.{name}".removeprefix("."))
        entries = field.get("items")
        yield from field_paths(entries or field, path=f"{here}[]" if entries else here)


def is_quantity(schema: Mapping[str, Any]) -> bool:
    """Whether it is a whole number or a text; then it has no type of its own."""
    return "x-kubernetes-int-or-string" in schema


def _structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """References written out, words that a structural schema does not have left out, an unknown one refused."""
    if (reference := schema.get("$ref")) is not None:
        beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        return _ordered(_structural(definitions[reference.removeprefix("#/$defs/")], definitions) | beside)
    result: Schema = {keyword: value for keyword, value in schema.items() if keyword in _KEYWORDS}
    if "pattern" in schema and not is_quantity(schema):
        pattern = result.pop("pattern")
        result["x-kubernetes-validations"] = [
            {"rule": rules.matches("self", pattern), "message": rules.SENTENCES[pattern]}
        ]
    if "const" in schema:
        result["enum"] = [schema["const"]]
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            result[keyword] = _structural(schema[keyword], definitions)
        else:
            result.pop(keyword, None)  # `additionalProperties: false` is the API server's own way: unknown fields go
    if "properties" in schema:
        result["properties"] = {name: _structural(field, definitions) for name, field in schema["properties"].items()}
    if result.get("type") == "array":
        result.setdefault("x-kubernetes-list-type", "atomic")
        if result["items"].get("type") != "object":
            result["items"].pop("description", None)  # `kubectl explain` would print it after the list's own
    return _ordered(result)


def _without_nothing(value: Any) -> Any:
    """What stands in a default object: nothing that says that there is nothing."""
    if not isinstance(value, dict):
        return value
    inner = {name: _without_nothing(entry) for name, entry in value.items()}
    return {name: entry for name, entry in inner.items() if entry not in _NOTHING}


def _explained(schema: Schema) -> Schema:
    """Descriptions that end with default and range: `kubectl explain` shows neither of them itself."""
    explained, facts = dict(schema), [schema["description"]] if "description" in schema else []
    if facts and not isinstance(default := schema.get("default", {}), dict):
        facts.append(f"Default: {default_text(default)}.")
    if facts and "minimum" in schema and "maximum" in schema and not is_quantity(schema):
        facts.append(f"From {schema['minimum']} to {schema['maximum']}.")
    if facts:
        explained["description"] = " ".join(facts)
    if "properties" in schema:
        explained["properties"] = {name: _explained(field) for name, field in schema["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            explained[keyword] = _explained(schema[keyword])
    return explained


def default_text(default: Any) -> str:
    if isinstance(default, list):
        return f"[{', '.join(map(default_text, default))}]"
    return str(default).lower() if isinstance(default, bool) else str(default)


def _ordered(schema: Schema) -> Schema:
    if unknown := set(schema) - set(_KEYWORDS):
        raise ValueError(f"a structural schema has no {', '.join(sorted(unknown))}: say it with a rule instead")
    return {keyword: schema[keyword] for keyword in _KEYWORDS if keyword in schema and schema[keyword] != []}


def _validations(value_type: type) -> list[Schema]:
    return [
        {
            "rule": rule.cel,
            "message": rule.sentence,
            **({"messageExpression": rule.sentence_cel} if rule.sentence_cel is not None else {}),
            **({"fieldPath": rule.field} if rule.field is not None else {}),
        }
        for rule in getattr(value_type, "RULES", ())
    ]
