# SPDX-License-Identifier: Apache-2.0
"""Records that tell when they were changed: the last member of the JSON object is a checksum of every byte before it.

    {"kind":"window","nanoseconds":1002243764,...,"checksum":"8c1f0e3a5b7d9f21"}

It is taken over the bytes of the line, not over the values: a changed digit, two fields that changed places and an
added space are all found. It is the beginning of a SHA-256: 64 bits are plenty against accidents. It is no protection
against deceit, for anybody can compute it anew; a figure is protected by being computed again from what was measured.
"""

import hashlib
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

#: Of every stored format. A changed meaning of a field needs the next one.
VERSION: Final = 1
_CHARACTERS = 16
_MEMBER = b',"checksum":"'
_END = b'"}'
_LENGTH = len(_MEMBER) + _CHARACTERS + len(_END)


class Damaged(ValueError):
    """A record that is not as it was written; the sentence says how that is known."""


def _of_this_gpubench(version: int) -> int:
    if version != VERSION:
        message = "it is {found}, and this gpubench reads {read}: use the gpubench that wrote it"
        raise PydanticCustomError("version", message, {"found": version, "read": VERSION})
    return version


#: The field by which a reader refuses what another version wrote.
SchemaVersion = Annotated[int, Field(strict=True), AfterValidator(_of_this_gpubench)]


def seal(text: str) -> str:
    """A JSON object of at least one member, in the compact form, with its checksum."""
    if not text.startswith('{"') or not text.endswith("}"):
        raise ValueError("only a JSON object in its compact form, with a member, can carry a checksum")
    body = text[:-1].encode()
    return (body + _MEMBER + _checksum(body) + _END).decode()


def is_sealed(text: str | bytes) -> bool:
    """Whether a text ends like one that carries a checksum, right or wrong."""
    line = _bytes(text)
    return line[-_LENGTH : len(_MEMBER) - _LENGTH] == _MEMBER and line.endswith(_END)


def opened(text: str | bytes) -> bytes:
    """The text as it was before it was sealed. Damaged where its checksum does not fit, or is not there."""
    line = _bytes(text)
    if not is_sealed(line):
        raise Damaged("it has no checksum: it was changed, or written by another program")
    body, stated = line[:-_LENGTH], line[len(_MEMBER) - _LENGTH : -len(_END)]
    computed = _checksum(body)
    if stated != computed:
        raise Damaged(
            f"its checksum is {stated.decode(errors='replace')}, and its bytes give {computed.decode()}: it was "
            "changed after it was written"
        )
    return body + b"}"


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_CHARACTERS].encode()


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
