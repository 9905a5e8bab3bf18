# SPDX-License-Identifier: Apache-2.0
"""Nearly valid objects: a valid one with one thing done to it, as people do.

A field left out, a number as text, a bound missed by one, a word misspelt, an entry twice, a field that goes with no
other one. Which of them are refused is not known here: the API server says so.
"""

import copy
import string
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import fuzz_objects
import fuzz_schema
from fuzz_objects import Made, Manner, Object
from fuzz_schema import Place
from gpubench import names, units

_TRIES = 4  # of other mutations, where one finds nothing to change
_SLIPS = ("A", " ", "-", "_", ".", "/", "é", "٣", "\n", "=", "0")
_BOUNDS = (
    *("minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)

_NAMES_MAX = {
    names.POOL_KIND: names.POOL_NAME_MAX,
    names.BENCHMARK_KIND: names.BENCHMARK_NAME_MAX,
    names.SCHEDULE_KIND: names.SCHEDULE_NAME_MAX,
}
_STRATEGIES: dict[tuple[str, int], fuzz_schema.Strategy] = {}

#: What is done to an object, and in which words; None where there is nothing to do it to.
_Done = tuple[Object, str] | None
_Mutation = Callable[[st.DrawFn, Object, list[Place]], _Done]


@st.composite
def nearly_valid(draw: st.DrawFn, kind: str) -> Made:
    """A valid object with one mutation."""
    document = draw(fuzz_objects.of_kind(kind, optional=3))
    places = [place for place in fuzz_schema.places(document, fuzz_objects.schema_of(kind)) if _is_of_spec(place)]
    for _ in range(_TRIES):
        mutation = draw(st.sampled_from(_MUTATIONS))
        if (done := mutation(draw, document, places)) is not None:
            mutated, title = done
            return Made(Manner.NEARLY, title, kind, mutated)
    return Made(Manner.VALID, "valid", kind, document)


def _is_of_spec(place: Place) -> bool:
    return place.path[:1] == ("spec",)


def _chosen(draw: st.DrawFn, places: list[Place]) -> Place | None:
    return draw(st.sampled_from(places)) if places else None


def _dropped(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    place = _chosen(draw, [place for place in places if isinstance(place.path[-1], str)])
    return place and (fuzz_schema.without(document, place.path), f"without {place.field}")


def _wrong_type(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    place = _chosen(draw, places)
    if place is None:
        return None
    others: list[Any] = [str(place.value), [place.value], {"value": place.value}, 1, 1.5, True, "", None, [], {}]
    value = draw(st.sampled_from([other for other in others if type(other) is not type(place.value)]))
    return fuzz_schema.changed(document, place.path, value), f"{place.field} is {_short(value)}"


def _bound(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    place = _chosen(draw, [place for place in places if any(bound in place.node for bound in _BOUNDS)])
    if place is None:
        return None
    bound = draw(st.sampled_from([bound for bound in _BOUNDS if bound in place.node]))
    at = max(0, place.node[bound] + draw(st.sampled_from([-1, 0, 0, 1])))
    value = _of_size(place, at)
    return fuzz_schema.changed(document, place.path, value), f"{place.field} of {at}, {bound} is {place.node[bound]}"


def _of_size(place: Place, size: int) -> Any:
    """A value like the one that is there, of another size."""
    value = place.value
    if isinstance(value, str) and "x-kubernetes-int-or-string" not in place.node:
        filler = value[:1] if value[:1] not in ("", "/") else "a"
        return value[:size] if len(value) >= size else value + filler * (size - len(value))
    if isinstance(value, list):
        return [*value[:size], *(_another(value, place.node, number) for number in range(size - len(value)))]
    if isinstance(value, dict):
        return {**dict(list(value.items())[:size]), **{f"more-{number}": "1" for number in range(size - len(value))}}
    return size


def _another(entries: list[Any], node: fuzz_schema.Schema, number: int) -> Any:
    """One more entry, as different from the others as a list without duplicates wants it."""
    model = entries[0] if entries else {"string": "a", "integer": 1}.get(node["items"].get("type"), {})
    if isinstance(model, dict):
        keys = node.get("x-kubernetes-list-map-keys", ())
        marked = dict.fromkeys(keys, f"more{number}")
        return {**copy.deepcopy(model), **marked}
    return f"{model}{number}" if isinstance(model, str) else 1000 + number


def _misspelt_choice(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    place = _chosen(draw, [place for place in places if "enum" in place.node])
    if place is None:
        return None
    word = str(place.value)
    misspelt = [word.swapcase(), word[:-1], f"{word} ", word + word[-1:], word.replace("_", "-"), ""]
    value = draw(st.sampled_from(misspelt))
    return fuzz_schema.changed(document, place.path, value), f"{place.field} is {_short(value)}"


def _slip(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    """A text that must match something, with one character too many or too few."""
    texts = [place for place in places if isinstance(place.value, str) and "enum" not in place.node]
    place = _chosen(draw, [place for place in texts if fuzz_schema.pattern_of(place.node) or "format" in place.node])
    if place is None:
        return None
    text, where = place.value, draw(st.integers(0, len(place.value)))
    slip = draw(st.sampled_from(_SLIPS))
    value = draw(st.sampled_from([text[:where] + slip + text[where:], text[:where] + text[where + 1 :], slip + text]))
    return fuzz_schema.changed(document, place.path, value), f"{place.field} is {_short(value)}"


def _twice(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    place = _chosen(draw, [place for place in places if isinstance(place.value, list) and place.value])
    if place is None:
        return None
    again = [*place.value, copy.deepcopy(place.value[draw(st.integers(0, len(place.value) - 1))])]
    return fuzz_schema.changed(document, place.path, again), f"an entry of {place.field} twice"


def _unknown_field(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    place = _chosen(draw, [place for place in places if "properties" in place.node and isinstance(place.value, dict)])
    if place is None:
        return None
    name = draw(st.sampled_from(sorted(place.node["properties"])))
    misspelt = draw(st.sampled_from([name.lower() + "s", name[:-1], name.capitalize(), f"{name}_"]))
    value = place.value.get(name, True)
    return fuzz_schema.changed(document, place.path, {**place.value, misspelt: value}), f"{place.field}.{misspelt}"


def _another_field(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    """A field that is valid by itself, and may go with no other one."""
    objects = [place for place in places if "properties" in place.node and isinstance(place.value, dict)]
    open_ = [
        (place, name, field)
        for place in objects
        for name, field in place.node["properties"].items()
        if name not in place.value
    ]
    if not open_:
        return None
    place, name, field = draw(st.sampled_from(open_))
    value = draw(_made_once(fuzz_schema.values, field))
    return fuzz_schema.changed(document, place.path, {**place.value, name: value}), f"{place.field}.{name} too"


def _another_value(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    """Another value of the field's whole range: bounds hold, rules across fields may not."""
    place = _chosen(draw, [place for place in places if place.node.get("type") not in ("object", "array")])
    if place is None:
        return None
    value = draw(_whole_range(place.node))
    return fuzz_schema.changed(document, place.path, value), f"{place.field} is {_short(value)}"


def _whole_range(node: fuzz_schema.Schema) -> fuzz_schema.Strategy:
    """Made once for each node of the schemas, which live as long as the process."""
    return _made_once(_any_value, node)


def _made_once(make: Callable[[fuzz_schema.Schema], fuzz_schema.Strategy], node: Any) -> fuzz_schema.Strategy:
    key = (make.__name__, id(node))
    if key not in _STRATEGIES:
        _STRATEGIES[key] = make(node)
    return _STRATEGIES[key]


def _any_value(node: fuzz_schema.Schema) -> fuzz_schema.Strategy:
    if node.get("type") == "integer":
        return st.integers(node.get("minimum", 0), node.get("maximum", 2**31))
    pattern = fuzz_schema.pattern_of(node)
    if pattern is not None:
        return fuzz_schema.any_text(pattern, least=node.get("minLength", 0), most=node.get("maxLength", 4096))
    if node.get("format") == "date":
        return st.dates().map(lambda day: day.isoformat())
    return fuzz_schema.values(node)


def _too_wide(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    """Lists that are each short enough, and together too long."""
    place = _chosen(draw, [place for place in places if place.path[-2:-1] == ("sweep",)])
    if place is None:
        return None
    workers = draw(st.sampled_from([16, 32]))
    block = {**place.value, "workers": list(range(1, workers + 1))}
    block.pop("globalBatch", None)
    block["batchPerWorker"] = list(range(1, draw(st.sampled_from([2, 8, 9, 16])) + 1))
    return fuzz_schema.changed(document, place.path, block), f"{place.field} of {fuzz_objects.points([block])} points"


def _extreme_money(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    """Decimal texts at the ends of what can be written."""
    texts = [place for place in places if isinstance(place.value, str)]
    amounts = [place for place in texts if fuzz_schema.pattern_of(place.node) == units.DECIMAL_PATTERN]
    place = _chosen(draw, amounts)
    if place is None:
        return None
    value = draw(st.sampled_from(["0", "0.000000001", "999999999999.999999999", "000000000000", "1.0000000000", "-1"]))
    return fuzz_schema.changed(document, place.path, value), f"{place.field} is {value}"


def _named(draw: st.DrawFn, document: Object, places: list[Place]) -> _Done:
    """Names that Kubernetes takes, and gpubench does not; and some that nobody takes."""
    del places
    longest = _NAMES_MAX[document["kind"]]
    name = draw(
        st.one_of(
            st.sampled_from(["a" * longest, "a" * (longest + 1), "a.b", "1a", "a-", "-a", "A", "a_b", "", "a" * 254]),
            st.text(string.ascii_lowercase + string.digits + "-.", min_size=1, max_size=longest),
        )
    )
    return fuzz_schema.changed(document, ("metadata", "name"), name), f"metadata.name is {_short(name)}"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:36]} ..."


_MUTATIONS: tuple[_Mutation, ...] = (
    *(_dropped, _wrong_type, _bound, _bound, _misspelt_choice, _slip, _slip, _twice, _unknown_field),
    *(_another_field, _another_field, _another_value, _another_value, _too_wide, _extreme_money, _named),
)
