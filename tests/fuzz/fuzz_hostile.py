# SPDX-License-Identifier: Apache-2.0
"""Hostile objects: what no person writes by mistake.

Control characters, texts that other programs take for their own language, numbers beyond every type, objects that are
deep, long or large. Many of them are valid: a source of a price may be any text, and then the operator has to live
with it in plans, Jobs, Events, metrics and statuses.
"""

from typing import Any

from hypothesis import strategies as st

import fuzz_objects
import fuzz_schema
from fuzz_objects import Made, Manner, Object
from fuzz_schema import Place

_NASTY = (
    *("\x00", "a\x00b", "\x1b[2J\x1b[31mred", "\r\nInjected: yes", "line\nline", "\x7f", "\x85", "\u2028", "\ufeff"),
    *(
        "\u202egnp.exe",
        "\u2066\u2069",
        "a\u0301" * 40,
        "👩‍👩‍👧‍👦",
        "\U0001d56c\U0001d587",
        "\ufffe",
        "\U0010ffff",
        "ß",
        "İ",
        "٣٤",
        "\uff11\uff12",
    ),
    *("<script>alert(1)</script>", "</td></tr>", "&lt;", "'\"><img src=x onerror=alert(1)>", "javascript:alert(1)"),
    *("$(rm -rf /)", "`id`", "; shutdown -h now", "| cat /etc/passwd", "${HOME}", "$$", "$(POD_NAME)", "%n%s%x", "%"),
    *("../../etc/passwd", "/..", "//", "~", "C:\\", "-rf", "--help", "*", "?", "!", "#", "{{ 7*7 }}", "{%raw%}"),
    *('"', "\\", "'", '"}\nup{job="x"} 1', '\\"', 'le="+Inf"', "# HELP x y", "{", "}", "[", "]", ",", ":", "- a: b"),
    *("!!python/object/apply:os.system ['id']", "&a [*a]", "<<: *x", "yes", "no", "null", "~", "0x10", "0o7", "1_000"),
    *("NaN", "nan", "Infinity", "-Infinity", "1e999", "1e-999", "-1", "-0", "+1", "1.", ".5", "0" * 24, "9" * 24),
    *("1,5", "1 000", "1e3", "0x1p3", "\uff12.\uff15", "1.0.0", " 1", "1 ", "\t1", "1\n"),
    *("9999-12-31", "0000-01-01", "0001-01-01", "2026-02-30", "20261101", "2026-W45-1", "2026-11-01T00:00:00Z"),
    *("0s", "00h", "99999h59999m999999s", "1h1h", "1d", "-1s", "1.5h", "1ns", "h", "ms"),
    *(" ", "  leading", "trailing  ", "\t", "\n", "nbsp\u00a0", "zero\u200bwidth"),
    *("😀" * 64, "x" * 63, "x" * 253, "x" * 512, "x" * 1024, "y" * 4096, "漢" * 512, "\x00" * 512, "\x1b" * 1024),
)
# No whole number as 2.0: kubectl sends 2. The API server takes 2.0 for an integer, and then CEL does not.
_NUMBERS: tuple[Any, ...] = (
    *(-1, 0, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**400, 0.5, "-0", 1e308, 1e-320),
    *(float("nan"), float("inf"), float("-inf"), "1.0", "2.0", "1", "NaN", "1e999", "٣", True, None),
)
_KEYS = (
    "__proto__",
    "constructor",
    "$ref",
    "",
    " ",
    "\x00",
    "a" * 1000,
    "spec",
    "metadata",
    "x-kubernetes",
    "é",
    "a.b",
)
_MANIFESTS: tuple[Any, ...] = ({"apiVersion": "v1"}, {"kind": "List", "items": []}, [], "text", 1, None)
_DEPTHS = (2, 40, 150)
_MANY = 3000
_LARGE = 1_700_000  # bytes, more than etcd takes and less than a request may have
_TOO_LARGE = 3_300_000


@st.composite
def hostile(draw: st.DrawFn, kind: str) -> Made:
    """A valid object with something hostile in it."""
    document = draw(fuzz_objects.of_kind(kind, optional=2))
    places = [
        place for place in fuzz_schema.places(document, fuzz_objects.schema_of(kind)) if place.path[:1] == ("spec",)
    ]
    manner = draw(fuzz_objects.weighed(_MANNERS))
    mutated, title = _HOW[manner](draw, document, places)
    return Made(Manner.HOSTILE, f"{manner}: {title}", kind, mutated, whole=manner in _OF_THE_WHOLE)


def nasty_text(*, most: int) -> fuzz_schema.Strategy:
    """Texts that hurt, cut to a length."""
    return st.one_of(
        st.sampled_from(_NASTY).map(lambda text: text[:most]),
        st.text(st.characters(exclude_categories=()), max_size=min(most, 40)),  # surrogates too
    )


def _free_texts(draw: st.DrawFn, document: Object, places: list[Place]) -> tuple[Object, str]:
    """All texts without a form: the object stays valid in most cases, and all that is made of it has them."""
    changed = []
    for place in places:
        is_text = isinstance(place.value, str) and place.node.get("type") == "string"
        if not is_text or "enum" in place.node or "format" in place.node or fuzz_schema.pattern_of(place.node):
            continue
        most = place.node.get("maxLength", 64)
        text = draw(nasty_text(most=most))
        if len(text) >= place.node.get("minLength", 0):
            document = fuzz_schema.changed(document, place.path, text)
            changed.append(place.field)
    return document, ", ".join(changed[:3]) or "none there"


def _one_text(draw: st.DrawFn, document: Object, places: list[Place]) -> tuple[Object, str]:
    texts = [place for place in places if isinstance(place.value, str)]
    if not texts:
        return document, "none there"
    place = draw(st.sampled_from(texts))
    most = place.node.get("maxLength", 4096) if draw(st.booleans()) else 100_000
    return fuzz_schema.changed(document, place.path, draw(nasty_text(most=most))), place.field


def _one_number(draw: st.DrawFn, document: Object, places: list[Place]) -> tuple[Object, str]:
    numbers = [place for place in places if isinstance(place.value, int | float)]
    if not numbers:
        return document, "none there"
    place = draw(st.sampled_from(numbers))
    return fuzz_schema.changed(document, place.path, draw(st.sampled_from(_NUMBERS))), place.field


def _anything_anywhere(draw: st.DrawFn, document: Object, places: list[Place]) -> tuple[Object, str]:
    place = draw(st.sampled_from(places))
    deep: Any = "end"
    for _ in range(draw(st.sampled_from(_DEPTHS))):
        deep = {"a": deep} if draw(st.booleans()) else [deep]
    value = draw(st.sampled_from([deep, [deep], list(range(_MANY)), ["x"] * _MANY, *_NUMBERS, *_MANIFESTS]))
    return fuzz_schema.changed(document, place.path, value), place.field


def _unknown_field(draw: st.DrawFn, document: Object, places: list[Place]) -> tuple[Object, str]:
    place = draw(st.sampled_from([place for place in places if isinstance(place.value, dict)]))
    key = draw(st.one_of(st.sampled_from(_KEYS), nasty_text(most=64)))
    value = draw(st.one_of(st.sampled_from(_NUMBERS), nasty_text(most=64)))
    return fuzz_schema.changed(document, place.path, {**place.value, key: value}), f"{place.field}.{key!r}"


def _several(draw: st.DrawFn, document: Object, places: list[Place]) -> tuple[Object, str]:
    """Three at once: the answer has all of them, or the first."""
    texts = [place for place in places if isinstance(place.value, str)]
    chosen = draw(st.lists(st.sampled_from(texts), min_size=1, max_size=3)) if texts else []
    for place in chosen:
        document = fuzz_schema.changed(document, place.path, draw(nasty_text(most=200)))
    return document, ", ".join(place.field for place in chosen)


def _metadata(draw: st.DrawFn, document: Object, places: list[Place]) -> tuple[Object, str]:
    del places
    text = draw(nasty_text(most=300))
    change: Object = draw(
        st.sampled_from(
            [
                {"name": text},
                {"labels": {"a": text}},
                {"labels": {text: "a"}},
                {"labels": {"app.kubernetes.io/managed-by": "gpubench", "gpubench.dev/component": "gang"}},
                {"annotations": {"a": text}},
                {"annotations": {text: "a"}},
                {"annotations": {"kopf.zalando.org/last-handled-configuration": text}},
                {"namespace": "kube-system"},
                {"resourceVersion": "1"},
                {"uid": "00000000-0000-0000-0000-000000000000"},
                {"generation": -1},
                {"creationTimestamp": "1970-01-01T00:00:00Z"},
                {"deletionTimestamp": "1970-01-01T00:00:00Z"},
                {"managedFields": [{"manager": text}]},
                {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": text, "uid": ""}]},
            ]
        )
    )
    return {**document, "metadata": {**document["metadata"], **change}}, next(iter(change))


def _envelope(draw: st.DrawFn, document: Object, places: list[Place]) -> tuple[Object, str]:
    """Another kind, a status of one's own, no spec, or something that is no object at all."""
    del places
    change: Object = draw(
        st.sampled_from(
            [
                {"kind": "Pod"},
                {"kind": 7},
                {"apiVersion": "gpubench.dev/v9"},
                {"spec": None},
                {"spec": []},
                {"spec": {}},
                {"metadata": None},
                {"metadata": "x"},
                {"status": {"phase": "Succeeded", "conditions": [{"type": "Finished", "status": "True"}]}},
                {"status": {"health": [1]}},
                {"extra": draw(nasty_text(most=50))},
            ]
        )
    )
    return {**document, **change}, next(iter(change))


def _size(draw: st.DrawFn, document: Object, places: list[Place]) -> tuple[Object, str]:
    """Too large for the store, or for a request; in an annotation, or in a list of the spec."""
    del places
    size = draw(st.sampled_from([_LARGE, _TOO_LARGE]))
    if draw(st.booleans()):
        metadata = {**document["metadata"], "annotations": {"a": "x" * size}}
        return {**document, "metadata": metadata}, f"an annotation of {size} bytes"
    spec = {**document["spec"], "unknown": ["x" * 1000] * (size // 1000)}
    return {**document, "spec": spec}, f"a field of {size} bytes"


_HOW = {
    "all free texts": _free_texts,
    "one text": _one_text,
    "one number": _one_number,
    "anything": _anything_anywhere,
    "unknown field": _unknown_field,
    "several texts": _several,
    "metadata": _metadata,
    "envelope": _envelope,
    "size": _size,
}
_MANNERS = {
    "all free texts": 40,
    "one text": 16,
    "one number": 10,
    "anything": 10,
    "unknown field": 6,
    "several texts": 6,
    "metadata": 6,
    "envelope": 5,
    "size": 1,
}
_OF_THE_WHOLE = frozenset({"metadata", "envelope", "size"})
