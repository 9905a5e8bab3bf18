# SPDX-License-Identifier: Apache-2.0
"""The environments that results come from: when two are comparable, how they differ, how their full record is read.

A result carries the comparability key of its environment only. The record behind it is in the head of pod 0's log and
goes with the pod. So it is read while the pod is there and kept in the ledger, once for each key. It is provenance:
where it cannot be had, no result changes and nothing waits for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpubench import records, units
from gpubench.records import Environment
from gpubench.scheduler.ledger import AttemptRecord

LOG_HEAD_BYTES = 64 * 1024  # of pod 0's log; what libraries print before the record is a few kilobytes
TRIED_FOR_SECONDS = 300.0  # after the attempt's end; by default its pod stays for twice as long
TRIED_AGAIN_SECONDS = 15.0
_DIGEST_CHARACTERS = 12


class EnvironmentKey(NamedTuple):
    """The comparability key of repeats, the digest of the image that was really run, and the instance type.

    A tag may have been moved to another image while the benchmark ran. The last two are known to the cluster and not to
    a gang, and empty where they are unknown.
    """

    environment: str
    image_id: str
    instance_type: str = ""

    @property
    def unknown(self) -> int:
        """How many of the facts that only the cluster knows are unknown."""
        return (not self.image_id) + (not self.instance_type)

    def is_comparable(self, other: "EnvironmentKey", *, across_pools: bool = False) -> bool:
        """Whether figures of both may be in one efficiency: an unknown image or instance type is no other one.

        Across pools the instance type is another one by intent: a node of eight GPUs against its sibling with one.
        """
        images = {self.image_id, other.image_id} - {""}
        types = {self.instance_type, other.instance_type} - {""}
        return self.environment == other.environment and len(images) < 2 and (across_pools or len(types) < 2)

    def with_what_is_known(self, other: "EnvironmentKey") -> "EnvironmentKey":
        """This key with what only a comparable one has."""
        return self._replace(
            image_id=self.image_id or other.image_id, instance_type=self.instance_type or other.instance_type
        )


def other_machines(record: AttemptRecord, measured: Iterable[AttemptRecord]) -> str | None:
    """Why no mean may be made of an attempt and a repeat that was measured; None where what both say is the same."""
    for before in measured:
        for what in ("instance_types", "accelerators"):
            own, other = getattr(record, what), getattr(before, what)
            if own and other and own != other:
                return (
                    f"it got {units.listed(own)}, and an earlier repeat {units.listed(other)}: no mean is made of "
                    "both, and no further repeat runs; narrow the pool's nodeSelector to one of them"
                )
    return None


def in_log(head: str, key: str) -> Environment | None:
    """The environment of this key in the head of a pod's log; libraries may have written lines before it."""
    read = map(records.read_environment, head.splitlines())
    return next((environment for environment in read if environment is not None and environment.key() == key), None)


def key_of(record: AttemptRecord) -> EnvironmentKey | None:
    """The environment of a measured attempt; None for one without a result."""
    if record.result is None:
        return None
    return EnvironmentKey(record.result.environment, record.image_id or "", "+".join(record.instance_types))


def distinct(keys: Iterable[EnvironmentKey]) -> tuple[EnvironmentKey, ...]:
    """Keys that figures may not be averaged over, as they were met; what is unknown of one makes it no other one."""
    met = tuple(dict.fromkeys(keys))
    found: dict[int, EnvironmentKey] = {}  # by where it was met
    for place in sorted(range(len(met)), key=lambda place: met[place].unknown):  # those that tell most come first
        one = met[place]
        same = next((before for before, other in found.items() if other.is_comparable(one)), place)
        found[same] = found[same].with_what_is_known(one) if same in found else one
    return tuple(found[place] for place in sorted(found))


def differences(keys: Sequence[EnvironmentKey], known: Mapping[str, Environment]) -> str:
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
    for what, met in (("image digest", dict.fromkeys(digests)), ("instance type", dict.fromkeys(types))):
        if len(met) > 1:
            found.append(f"{what} {units.listed(tuple(met))}")
    return "; ".join(found)


def _short(image_id: str) -> str:
    """The digest in an image id, cut: two that differ differ in the first characters."""
    digest = image_id.rpartition("sha256:")[2]
    return digest[:_DIGEST_CHARACTERS] if len(digest) == 64 else image_id
