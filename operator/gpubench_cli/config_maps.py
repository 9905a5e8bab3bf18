# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps of a study file, which a volume of the study mounts: `kubectl apply` makes them, a local run reads them.

Read as strictly as the other documents: a ConfigMap that the API server would refuse refuses the file.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpubench_cli.refusal import Refusal
from gpubench_cli.yaml_text import Document, FieldPath

KIND = "ConfigMap"
API_VERSION = "v1"
_FIELDS = frozenset({"apiVersion", "kind", "metadata", "data", "binaryData", "immutable"})
_KEY = re.compile(r"^[-._a-zA-Z0-9]{1,253}$")


@dataclass(frozen=True, kw_only=True)
class ConfigMap:
    """Small files by their names."""

    name: str
    files: tuple[tuple[str, bytes], ...]

    def write(self, folder: Path) -> None:
        """The folder that a pod would see."""
        folder.mkdir(parents=True, exist_ok=True)
        for key, content in self.files:
            (folder / key).write_bytes(content)

    def document(self) -> dict[str, Any]:
        """The object as `kubectl apply` takes it."""
        sections: dict[str, dict[str, str]] = {}
        for key, content in self.files:
            try:
                sections.setdefault("data", {})[key] = content.decode()
            except UnicodeDecodeError:
                sections.setdefault("binaryData", {})[key] = base64.b64encode(content).decode()
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": self.name}, **sections}


def read(document: Document) -> ConfigMap:
    """The ConfigMap of a document, or a Refusal with everything that is wrong with it."""
    content: dict[str, Any] = document.content
    problems = [_problem(document, (field,), "unknown field: remove it") for field in content if field not in _FIELDS]
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        problems.append(_problem(document, ("metadata", "name"), "a ConfigMap needs a name"))
    files: dict[str, bytes] = {}
    for section, decode in (("data", _text), ("binaryData", _binary)):
        entries = content.get(section) or {}
        if not isinstance(entries, dict):
            problems.append(_problem(document, (section,), "write keys and their texts"))
            continue
        for key, value in entries.items():
            found = decode(value)
            if not _KEY.match(str(key)) or str(key) in (".", ".."):
                problems.append(_problem(document, (section, str(key)), "a key is a file's name: letters, digits, -._"))
            elif found is None:
                what = "text: write | and the lines below it" if section == "data" else "base64"
                problems.append(_problem(document, (section, str(key)), f"the value is not {what}"))
            else:
                files[str(key)] = found
    if problems:
        raise Refusal(*problems)
    return ConfigMap(name=str(name), files=tuple(files.items()))


def _text(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else None


def _binary(value: object) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except binascii.Error:
        return None


def _problem(document: Document, path: FieldPath, sentence: str) -> str:
    return f"{document.at(path)}: {'.'.join(map(str, path))}: {sentence}"
