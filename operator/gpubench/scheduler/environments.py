# SPDX-License-Identifier: Apache-2.0
"""The environments that results come from: when two are comparable, how they differ, how their full record is read.

A result carries the comparability key of its environment only. The record behind it is in the head of pod 0's log and
goes with the pod. So it is read while the pod is there and kept in the ledger, once for each key. It is provenance:
where it cannot be had, no result changes and nothing waits for it.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from gpubench import names, records, units
from gpubench.scheduler.ledger import AttemptRecord, Change

LOG_HEAD_BYTES = 64 * 1024  # of pod 0's log; what libraries print before the record is a few kilobytes
TRIED_FOR_SECONDS = 300.0  # after the attempt's end; by default its pod stays for twice as long
TRIED_AGAIN_SECONDS = 15.0
_DIGEST_CHARACTERS = 12
RESOURCE_KINDS = ("limits", "requests")
_RESOURCES, _AS_PLANNED = "resources.", "resources as planned"
_OF_THE_CLUSTER = ("image_id", "instance_type", "capacity")  # facts of a key that only the cluster knows, if anybody
_NO_MEAN = "it got {}, and an earlier repeat {}: no mean is made of both, and no further repeat runs; {}"


class EnvironmentKey(NamedTuple):
    """The comparability key of repeats, the digest of the image that was really run, and what they were given.

    A tag may have been moved to another image while the benchmark ran. The others are known to the cluster and not to
    a gang. Image and instance type are empty where they are unknown, resources where they are as planned.
    """

    environment: str
    image_id: str
    instance_type: str = ""
    resources: str = ""
    capacity: str = ""  # type, such as Spot

    @property
    def unknown(self) -> int:
        return sum(not getattr(self, fact) for fact in _OF_THE_CLUSTER)

    def is_comparable(self, other: "EnvironmentKey", *, across_pools: bool = False) -> bool:
        """Whether figures of both may be in one efficiency: an unknown image or instance type is no other one.

        Across pools the instance type is another one by intent: a node of eight GPUs against its sibling with one.
        """
        images = {_short(self.image_id), _short(other.image_id)} - {""}
        types = {self.instance_type, other.instance_type} - {""}
        capacities = {self.capacity, other.capacity} - {""}
        same = (self.environment, self.resources) == (other.environment, other.resources)
        return same and len(images) < 2 and (across_pools or (len(types) < 2 and len(capacities) < 2))

    def with_what_is_known(self, other: "EnvironmentKey") -> "EnvironmentKey":
        """This key with what only a comparable one has."""
        return self._replace(**{fact: getattr(self, fact) or getattr(other, fact) for fact in _OF_THE_CLUSTER})


def other_machines(record: AttemptRecord, measured: Iterable[AttemptRecord]) -> str | None:
    """Why no mean may be made of an attempt and a repeat that was measured; None where what both say is the same."""
    for before in measured:
        for what in ("instance_types", "accelerators", "capacities"):
            own, other = getattr(record, what), getattr(before, what)
            if own and other and own != other:
                remedy = "narrow the pool's nodeSelector to one of them"
                return _NO_MEAN.format(units.listed(own), units.listed(other), remedy)
        if record.nodes and (own_given := _given(record)) != (given := _given(before)):
            remedy = "exempt the pods of benchmarks from what changes them"
            return _NO_MEAN.format(own_given or _AS_PLANNED, given or _AS_PLANNED, remedy)
    return None


def _given(record: AttemptRecord) -> str:  # resources of its pods that are not as planned
    return ", ".join(sorted(f"{one.field} {one.got}" for one in record.changed if one.field.startswith(_RESOURCES)))


def changes(planned: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[Change]:
    """What others changed in the spec of a pod that has its node; what they only add to it is no matter."""
    yield from _other_resources(resources(planned), resources(got))
    ours, theirs = map(_container, (planned, got))
    digest = ours["image"].partition("@sha256:")[2]  # empty of a tag, which may stand for any
    if not str(theirs.get("image")).endswith(digest):
        yield Change(field="image", planned=ours["image"], got=theirs.get("image"))
    selector = got.get("nodeSelector") or {}
    for key, value in (planned.get("nodeSelector") or {}).items():
        if selector.get(key) != value:
            yield Change(field=f"nodeSelector.{key}", planned=value, got=selector.get(key))
    schedulers = [spec.get("schedulerName") or "default-scheduler" for spec in (planned, got)]
    if schedulers[0] != schedulers[1]:
        yield Change(field="schedulerName", planned=schedulers[0], got=schedulers[1])
    affinity = got.get("affinity") or {}
    for kind, terms in (planned.get("affinity") or {}).items():
        if affinity.get(kind) != terms:
            yield Change(field=f"affinity.{kind}", planned="ours", got="another" if kind in affinity else None)


def neighbours(spec: Mapping[str, Any]) -> Sequence[str]:
    apart = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    return (apart.get("requiredDuringSchedulingIgnoredDuringExecution") or [{}])[0].get("namespaces") or ()


def _container(spec: Mapping[str, Any]) -> dict[str, Any]:
    return next((one for one in spec["containers"] if one["name"] == names.CONTAINER), {})


def resources(spec: Mapping[str, Any]) -> dict[str, str]:
    """Limits and requests of the gang's container in a pod's spec, by field: `resources.limits.cpu`."""
    given = _container(spec).get("resources") or {}
    amounts = ((kind, (given.get(kind) or {}).items()) for kind in RESOURCE_KINDS)
    return {f"{_RESOURCES}{kind}.{name}": amount for kind, of_kind in amounts for name, amount in of_kind}


def _other_resources(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[Change]:
    """A request that was changed as its limit was is not said again."""
    said = set()
    for field, quantity in ours.items():
        found, more = theirs.get(field), Decimal(-1)
        with contextlib.suppress(ValueError):  # the API server knows more forms of a quantity than are written here
            more = units.quantity_value(found or "0").compare(units.quantity_value(quantity))
        name = field.removeprefix(_RESOURCES).partition(".")[2]
        if found != quantity and more and (name, found) not in said:
            said.add((name, found))
            yield Change(field=field, planned=quantity, got=found, is_more=more > 0)


def in_log(head: str, key: str) -> records.Environment | None:
    """The environment of this key in the head of a pod's log; libraries may have written lines before it."""
    read = map(records.read_environment, head.splitlines())
    return next((environment for environment in read if environment is not None and environment.key() == key), None)


def key_of(record: AttemptRecord) -> EnvironmentKey | None:
    if record.result is None:
        return None
    types, capacities = ("+".join(found) for found in (record.instance_types, record.capacities))
    return EnvironmentKey(record.result.environment, record.image_id or "", types, _given(record), capacities)


def distinct(keys: Iterable[EnvironmentKey]) -> tuple[EnvironmentKey, ...]:
    """Keys that figures may not be averaged over, as they were met; what is unknown of one makes it no other one."""
    met = tuple(dict.fromkeys(keys))
    found: dict[int, EnvironmentKey] = {}  # by where it was met
    for place in sorted(range(len(met)), key=lambda place: met[place].unknown):  # those that tell most come first
        one = met[place]
        same = next((before for before, other in found.items() if other.is_comparable(one)), place)
        found[same] = found[same].with_what_is_known(one) if same in found else one
    return tuple(found[place] for place in sorted(found))


def differences(keys: Sequence[EnvironmentKey], known: Mapping[str, records.Environment]) -> str:
    """What these environments differ in: `driver 550.54 and 560.35; instance type p3.2xlarge and p3.8xlarge`.

    Keys whose records were never read are shown as they are.
    """
    found: list[str] = []
    hashes = tuple(dict.fromkeys(one.environment for one in keys))
    if len(hashes) > 1:
        facts = [known[key] for key in hashes if key in known]
        in_words = records.environment_differences(*facts) if len(facts) == len(hashes) else ()
        shown = tuple(records.environment_shown(key) or "none" for key in hashes)
        found += in_words or (f"environment {units.listed(shown)}",)
    digests = (_short(one.image_id) or "unknown" for one in keys)
    types = (one.instance_type for one in keys if one.instance_type)
    given = (one.resources or _AS_PLANNED for one in keys)
    capacities = (one.capacity for one in keys if one.capacity)
    every_fact = {"image digest": digests, "instance type": types, "pods with": given, "capacity type": capacities}
    for what, every in every_fact.items():
        met = dict.fromkeys(every)
        if len(met) > 1:
            found.append(f"{what} {units.listed(tuple(met))}")
    return "; ".join(found)


def _short(image_id: str) -> str:
    """The digest in an image id, cut: two that differ differ in the first characters."""
    digest = image_id.rpartition("sha256:")[2]
    return digest[:_DIGEST_CHARACTERS] if len(digest) == 64 else image_id
