# SPDX-License-Identifier: Apache-2.0
"""What is right and what is wrong about an answer, a condition, a line of the operator's log. Values only.

Right is a sentence that a person can act on. Wrong is an empty one, one that shows the inside of a program, a rule that
could not be evaluated, and control characters, which whoever reads it on a terminal would obey.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpubench.scheduler import conditions
from gpubench_operator import events

REFUSING = frozenset({400, 409, 413, 422})  # 409: a name that is taken, a uid that nobody has
#: What the API server answers with a 500, to any kind of object.
_RESOURCE_VERSION_IS_SET = "resourceVersion should not be set on objects to be created"
#: Reasons of an accepted study that show a fault: its schema and its type disagree, or the API server refuses what is
#: made of it although it could have refused the study.
_FAULTY_REASONS = frozenset({events.INVALID_SPEC, events.STUCK})
_INSIDE = re.compile(
    r"Traceback|panic|goroutine|runtime error|object at 0x|<class '|pydantic|\.py:|"
    r"failed rule:|rule evaluation error|no such key|no such overload|cost exceeds|cost budget|"
    r"\b[A-Z][A-Za-z]+Error\b|\bNone\b"
)
_WORDS_LEAST = 3


class Answer(NamedTuple):
    """What the API server answered."""

    code: int
    text: str

    @property
    def accepted(self) -> bool:
        """Whether the object is there now."""
        return 200 <= self.code <= 299

    def body(self) -> dict[str, Any]:
        """The answer as JSON; empty where it is none."""
        try:
            found = json.loads(self.text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def message(self) -> str:
        """What kubectl would print."""
        return str(self.body().get("message") or "")


def without_users_words(text: str) -> str:
    """A message of the API server without what it quotes: the refused value may say anything."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def sentence_fault(text: str) -> str | None:
    """Why a text is no sentence for people; None where it is one."""
    if len(text.split()) < _WORDS_LEAST:
        return f"no sentence: {text!r}"
    if found := _INSIDE.search(without_users_words(text)):
        return f"shows the inside of a program ({found.group()!r}): {text[:300]!r}"
    return None


def _control_fault(text: str) -> str | None:
    """What a terminal would obey. The API server prints names of unknown fields as they are; gpubench must not."""
    control = next((sign for sign in text if unicodedata.category(sign) == "Cc" and sign not in "\n\t"), None)
    return control and f"has the control character {control!r}: {text[:300]!r}"


def refusal_fault(answer: Answer) -> str | None:
    """What is wrong with a refusal; None where it helps whoever applied the object."""
    # No client sends an object of another kind. Its defaults are not set, and rules that need them say so, too.
    if answer.message() == _RESOURCE_VERSION_IS_SET or '"field":"kind"' in answer.text:
        return None
    if answer.code not in REFUSING:
        return f"HTTP {answer.code}: {answer.text[:300]!r}"
    if fault := sentence_fault(answer.message()):
        return fault
    causes = (answer.body().get("details") or {}).get("causes") or []
    if answer.code == 422 and not causes:
        return f"says no field: {answer.message()[:300]!r}"
    nameless = [cause for cause in causes if not cause.get("field") or not cause.get("message")]
    return f"a cause without field or message: {nameless[0]}" if nameless else None


def has_been_seen(body: Mapping[str, Any]) -> bool:
    """Whether the operator has said something about a study as it is now."""
    status = body.get("status") or {}
    generation = body["metadata"].get("generation", 1)
    return bool(status.get("conditions")) and status.get("observedGeneration") == generation


def study_fault(body: Mapping[str, Any]) -> str | None:
    """What is wrong with what the operator says of a study; None where it is a sentence that fits."""
    status = body.get("status") or {}
    found = {one["type"]: one for one in status.get("conditions") or ()}
    if not found.keys() & {conditions.FINISHED, conditions.PROGRESSING}:
        return f"neither Finished nor Progressing among its conditions: {sorted(found)}"
    if not status.get("phase"):
        return "no phase"
    generation = body["metadata"].get("generation", 1)
    for one in found.values():
        if one.get("observedGeneration") != generation:
            return f"{one['type']} is of generation {one.get('observedGeneration')}, the object of {generation}"
    finished, succeeded = found.get(conditions.FINISHED, {}), found.get(conditions.SUCCEEDED, {})
    if finished.get("status") == "True" and succeeded.get("status") == "Unknown":
        return f"finished, and nobody knows how: {succeeded.get('message')}"
    return conditions_fault(found.values())


def schedule_fault(body: Mapping[str, Any]) -> str | None:
    """What is wrong with what the operator says of a schedule."""
    status = body.get("status") or {}
    found = {one["type"]: one for one in status.get("conditions") or ()}
    if missing := {"Ready", "Regressed"} - found.keys():
        return f"no condition {' and '.join(sorted(missing))}"
    generation = body["metadata"].get("generation", 1)
    for one in found.values():
        if one.get("observedGeneration") != generation:
            return f"{one['type']} is of generation {one.get('observedGeneration')}, the object of {generation}"
    monthly = (status.get("monthly") or {}).get("sentence")
    if monthly is not None and (fault := sentence_fault(monthly) or _control_fault(monthly)):
        return f"status.monthly: {fault}"
    return conditions_fault(found.values())


def pool_fault(body: Mapping[str, Any]) -> str | None:
    """What is wrong with what the operator says of a pool."""
    return conditions_fault((body.get("status") or {}).get("conditions") or ())


def conditions_fault(found: Iterable[Mapping[str, Any]]) -> str | None:
    """The first condition without a sentence, or whose reason shows a fault."""
    for one in found:
        if one.get("reason") in _FAULTY_REASONS:
            return f"{one['type']} is {one['status']}, {one['reason']}: {one.get('message')}"
        message = one.get("message") or ""
        if fault := sentence_fault(message) or _control_fault(message):
            return f"{one['type']}, {one.get('reason')}: {fault}"
    return None


def log_fault(line: str) -> str | None:
    """What a line of the operator's log shows that must not happen; None for all others."""
    try:
        entry = json.loads(line)
    except ValueError:
        return f"a line of the log that is no event: {line[:2000]!r}" if line.strip() else None
    exception = str(entry.get("exception") or "")
    if entry.get("level") in ("error", "critical") or exception:
        last = exception.strip().rpartition("\n")[2]
        return f"{entry.get('event')}: {entry.get('error')}: {last}\n{line[:1000]}\n{exception[:4000]}"
    return None


def essence(message: str) -> str:
    """A refusal without what is of one object only, so that the same words count once."""
    first = message.split("[", 1)[-1] if ": [" in message else message
    first = re.sub(r"^.*? is invalid: ", "", first)
    first = re.sub(r'"(?:[^"\\]|\\.)*"', "…", first)
    return re.sub(r"\d+", "N", first)[:200]
