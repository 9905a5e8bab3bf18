# SPDX-License-Identifier: Apache-2.0
"""YAML with its line numbers: plain values as `kubectl apply` would read them, and where each of them stands.

Must not happen: a key that is given twice is silently taken once, or a date that is not in quotes becomes something
that the API server would never see (kubectl reads `2026-11-01` as text). Nor a file that the library fails at in
another way than with an error of its own: every such failure becomes one that has a place in the file.
"""

import reprlib
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpubench_cli.refusal import Refusal

_DEPTH_MAX = 100  # objects of Kubernetes stay below twenty; at some hundreds the interpreter's stack ends

#: A field's place in a document: keys and list indices, as in `("spec", "sweep", 0, "workers")`.
FieldPath = tuple[str | int, ...]


class Document:
    """One document of a file: its content, and the line of each field."""

    def __init__(self, *, source: str, root: yaml.Node, content: Any) -> None:
        self.source = source
        self.content = content
        self._root = root

    def line(self, path: Sequence[str | int] = ()) -> int:
        """The line of a field, counted from 1; of the nearest enclosing field where it does not exist."""
        node, line = self._root, self._root.start_mark.line
        for step in path:
            found = _step(node, step)
            if found is None:
                break
            node, line = found
        return int(line) + 1

    def at(self, path: Sequence[str | int] = ()) -> str:
        """`file.yaml:23`, for the beginning of a sentence."""
        return f"{self.source}:{self.line(path)}"


def read(path: Path) -> list[Document]:
    """The documents of a file that are not empty."""
    text = _text(path)
    loader = _Loader(text)
    loader.name = str(path)
    documents: list[Document] = []
    try:
        while loader.check_node():
            root = loader.get_node()
            assert root is not None
            content = loader.construct_document(root)
            if content is not None:
                documents.append(Document(source=str(path), root=root, content=content))
    except yaml.MarkedYAMLError as error:
        raise Refusal(_marked(path, error)) from error
    except yaml.YAMLError as error:
        raise Refusal(f"{path}: this is not YAML: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()
    return documents


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise Refusal(f"{path}: there is no such file") from error
    except UnicodeDecodeError as error:
        raise Refusal(f"{path}: this is not a text file in UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise Refusal(f"{path}: the file cannot be read: {error.strerror}") from error


def _marked(path: Path, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    problem = error.problem or error.context or "cannot be read"
    context = f" ({error.context})" if error.context and error.problem else ""
    return f"{where}: this is not valid YAML: {problem}{context}"


def _step(node: yaml.Node, step: str | int) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark.line
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line
    return None


class _Refused(yaml.MarkedYAMLError):
    """What YAML allows, or the library fails at, and no study file may have."""


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses duplicate keys, endless values and abysses, and leaves dates as text."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._enclosing: list[yaml.Node | None] = []  # of the node that is being read, from the outside in

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if len(self._enclosing) > _DEPTH_MAX:
            raise _Refused(problem=f"more than {_DEPTH_MAX} levels stand inside each other", problem_mark=mark)
        self._enclosing.append(parent)
        node = super().compose_node(parent, index)
        if any(node is outer for outer in self._enclosing if outer is not None):
            raise _Refused(problem="the value contains itself", problem_mark=mark)
        self._enclosing.pop()
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            kind = node.tag.rsplit(":", 1)[-1]
            raise _Refused(
                problem=f"{reprlib.repr(node.value)} cannot be read as {kind}", problem_mark=node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _Refused(problem="a key must be text, not a list or a mapping", problem_mark=key.start_mark)
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise _Refused(
                    problem=f"the key {key.value!r} stands here again, it was first given in line {seen[key.value]}",
                    problem_mark=key.start_mark,
                )
            seen[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep=deep)


def _as_text(loader: yaml.SafeLoader, node: yaml.Node) -> str:
    assert isinstance(node, yaml.ScalarNode)
    return str(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _as_text)
