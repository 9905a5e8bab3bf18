# SPDX-License-Identifier: Apache-2.0
"""A rule across fields: the CEL that the API server evaluates, beside the sentence that a person reads.

Rules are attached to the types as `RULES`; the CRDs carry them as `x-kubernetes-validations`. Rules about one object's
state are also evaluated for study files that meet no API server. A sentence names the field and the remedy.

An expression may use only what both evaluators know: the operators, `has`, `size`, `matches`, `all`, `exists`, `map`,
`filter`, `double`, `duration`, `startsWith`, `type`, `isQuantity`, `sum` of a list, `format` of a text and `getFullYear`
of a date. The cases in `tests/artifacts` go through both.
"""

from pydantic.config import JsonDict

from gpubench import units
from gpubench.api import patterns
from gpubench.values import FrozenModel

#: For `json_schema_extra`: what kind of text it is; how the API server merges a list, and that no entry stands twice.
TIME: JsonDict = {"format": "date-time"}
SET: JsonDict = {"x-kubernetes-list-type": "set"}


def list_map(key: str) -> JsonDict:
    """A list whose entries are told apart by one of their fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class Rule(FrozenModel):
    """One `x-kubernetes-validations` entry."""

    cel: str
    sentence: str
    detail: str | None = None  # what follows the sentence when the values are known, with %s and %d in it
    values: tuple[str, ...] = ()  # CEL for each of them
    field: str | None = None  # JSON path of the field to blame, where it is not the object itself
    transition: bool = False  # speaks of `oldSelf`: meaningless outside an update

    @property
    def sentence_cel(self) -> str | None:
        """CEL that gives the sentence with the values in it.

        It is one call of `format`: the API server cannot bound the length of `string(number)`, and refuses a rule
        that goes on to add to it.
        """
        if self.detail is None:
            return None
        text = f"{self.sentence.replace('%', '%%')}; {self.detail}".replace("'", "\\'")
        return f"'{text}'.format([{', '.join(self.values)}])"


def unchangeable(field: str, *, parent: str) -> Rule:
    """A field that keeps its value for the life of the object, whether it is set or absent."""
    return Rule(
        cel=f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        sentence=f"{parent}.{field} cannot be changed once the study exists: "
        "delete it and apply it again, or apply it under another name",
        field=f".{field}",
        transition=True,
    )


def name_at_most(characters: int, *, because: str) -> Rule:
    """The object's name is part of longer names."""
    return Rule(
        cel=f"size(self.metadata.name) <= {characters}",
        sentence=f"metadata.name must have at most {characters} characters, because {because}",
        detail="this one has %d",
        values=("size(self.metadata.name)",),
        field=".metadata.name",
    )


def name_of_hosts(*, such_as: str) -> Rule:
    """The object's name begins names of hosts."""
    return Rule(
        cel="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        sentence="metadata.name must begin with a letter and hold only small letters, digits and -, because host "
        f"names are made of it; choose a name such as {such_as}",
        field=".metadata.name",
    )


def decimal_within(field: str, low: str, high: str, *, parent: str, such_as: str) -> Rule:
    """Bounds of a decimal text. One that cannot be read is left to its own rule, which says what is wrong with it."""
    number = f"double(self.{field})"
    return Rule(
        cel=f"!{patterns.matches(f'self.{field}', units.DECIMAL_PATTERN)} || ({number} >= {low} && {number} <= {high})",
        sentence=f"{parent}.{field} must be from {low} to {high}, such as {such_as}",
        detail="it is %s",
        values=(f"self.{field}",),
        field=f".{field}",
    )


def is_number(amount: str) -> str:
    """CEL: an amount can be read. One that cannot is left to its own field, which says what is wrong with it.

    The API server takes an int-or-string for a text of 3 MiB when it adds up what a rule may cost, so a regular
    expression over one is refused where it stands in a list.
    """
    return f"(type({amount}) == int || isQuantity({amount}))"


def above_zero(field: str, *, sentence: str) -> Rule:
    """An amount that may be absent, and may not be nothing."""
    amount = f"self.{field}"
    return Rule(
        cel=f"!has({amount}) || !{is_number(amount)} || double({amount}) > 0.0", sentence=sentence, field=f".{field}"
    )


def about_durations(*fields: str, holds: str) -> str:
    """CEL about durations. One that cannot be read is left to its own rule, which says what is wrong with it."""
    readable = " && ".join(f"self.{field}.matches('^([0-9]{{1,6}}(ms|[hms]))+$')" for field in fields)
    return f"!({readable}) || {holds}"


def positive(field: str, *, parent: str) -> Rule:
    """A duration that may not be zero."""
    return Rule(
        cel=about_durations(field, holds=f"duration(self.{field}) > duration('0s')"),
        sentence=f"{parent}.{field} must be longer than 0s",
        field=f".{field}",
    )


def where_given(field: str, rule: Rule) -> Rule:
    """The rule of a field that may be absent."""
    return rule.model_copy(update={"cel": f"!has(self.{field}) || {rule.cel}"})
