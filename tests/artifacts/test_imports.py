# SPDX-License-Identifier: Apache-2.0
"""Who reads a module follows a short chain of imports. Which way they go is the matter of `lint-imports`."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "operator"
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")}
DEPTH_MAX = 16  # kopf, a whole framework, has 19; an entry point (`__main__`), which nobody imports, does not count


def imported_at_once(module: str) -> Iterator[str]:
    """Modules of the product that a module imports when it is imported itself."""
    for node in ast.parse(FILES[module].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                yield from {f"{node.module}.{name.name}", str(node.module)} & FILES.keys()


@functools.cache
def chain(module: str) -> tuple[str, ...]:
    return (module, *max(map(chain, imported_at_once(module)), key=len, default=()))


def test_no_chain_of_imports_is_long() -> None:
    longest = max((chain(module) for module in FILES if not module.endswith(".__main__")), key=len)
    assert len(longest) <= DEPTH_MAX, " > ".join(longest)
