# SPDX-License-Identifier: Apache-2.0
"""The base of every value that crosses a border: frozen, closed, camelCase on the wire.

Values are made of tuples and other values, never of lists or dicts that somebody could change later; a change is a new
value. An unknown field is an error: a misspelt setting must not be silently ignored.
"""

import hashlib
import json
from base64 import b32encode
from collections.abc import Callable, Iterable
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel


class FrozenModel(BaseModel):
    """A frozen record. In Python its fields are snake_case, in JSON and YAML camelCase."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)
    _GIVEN: ClassVar[set[str]] = set()

    def model_post_init(self, _: object) -> None:
        """One empty set for all: the names of the given fields, which no code reads, take as much as the record."""
        object.__setattr__(self, "__pydantic_fields_set__", self._GIVEN)

    def to_json(self) -> str:
        """Compact JSON with sorted keys: equal values give equal text, which hashes and diffs rely on.

        ValueError for a number that JSON does not have: NaN, or an infinite one.
        """
        return json.dumps(self.to_wire(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    def to_wire(self) -> dict[str, object]:
        """The plain dict that is written to the API server or a file; absent values are left out, never null."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


#: Beside a Literal of small words, which stand in sentences: on the wire they are CamelCase, as Kubernetes' enums are.
FROM_CAMEL_CASE = BeforeValidator(lambda word: word.lower() if isinstance(word, str) else word)
TO_CAMEL_CASE = PlainSerializer(str.capitalize, when_used="json")

_Number = TypeVar("_Number")
_Other = TypeVar("_Other")
_Key = TypeVar("_Key")


class IntervalOf(FrozenModel, Generic[_Number]):
    """A mean with its interval; without low and high there were too few repeats for one."""

    mean: _Number
    low: _Number | None = None
    high: _Number | None = None

    def each(self, change: Callable[[_Number], _Other]) -> "IntervalOf[_Other]":
        """The mean and both ends, each changed alike."""
        low, high = (None if end is None else change(end) for end in (self.low, self.high))
        return IntervalOf(mean=change(self.mean), low=low, high=high)


class Interval(IntervalOf[float]):
    """A mean with its interval; without low and high there were too few repeats for one."""

    mean: float = Field(description="Mean over the repeats.")
    low: float | None = Field(None, description="Lower end of the 95 % interval.")
    high: float | None = Field(None, description="Upper end of the 95 % interval.")

    def scaled(self, factor: float) -> "Interval":
        """All three times a positive, certain factor."""
        return Interval(**dict(self.each(lambda value: value * factor)))


def grouped(items: Iterable[_Other], key: Callable[[_Other], _Key]) -> dict[_Key, list[_Other]]:
    """The items by their keys, in the order in which they come."""
    groups: dict[_Key, list[_Other]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def content_id(text: str, *, characters: int) -> str:
    """A short identifier of a text: lower-case base32 of its SHA-256, safe in DNS labels and label values.

    One character holds five bits: eight tell a million million texts apart.
    """
    return b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:characters]
