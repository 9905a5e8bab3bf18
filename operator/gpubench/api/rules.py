# SPDX-License-Identifier: Apache-2.0
"""A rule across fields: the CEL that the API server evaluates, beside the sentence that a person reads.

Rules are attached to the types as `RULES`; the CRDs carry them as `x-kubernetes-validations`. Rules about one object's
state are also evaluated for study files that meet no API server. A sentence names the field and the remedy.

An expression may use only what both evaluators know: the operators, `has`, `size`, `matches`, `all`, `exists`, `map`,
`filter`, `double`, `duration`, `sum` of a list and `format` of a text. The cases in `tests/artifacts` go through both.
"""

from pydantic.config import JsonDict

from gpubench.values import Value

#: For `json_schema_extra`: what kind of text it is; how the API server merges a list, and that no entry stands twice.
TIME: JsonDict = {"format": "date-time"}
SET: JsonDict = {"x-kubernetes-list-type": "set"}


def list_map(key: str) -> JsonDict:
    """A list whose entries are told apart by one of their fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class Rule(Value):
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
