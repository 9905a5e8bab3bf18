# SPDX-License-Identifier: Apache-2.0
"""The wheel's place and the sentences of a build that cannot begin. The build itself is what `install` has done."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gangs import SECONDS_UP, wait_until

PROGRAM = Path(__file__).parents[2] / "jobs" / "horovod_wheel.py"
PATCHES = PROGRAM.with_name("horovod_patches")
#: In place of uv: an environment whose pip fetches the archive beside it, and whose build only shows the patched file.
UV = """#!/bin/sh
[ "$1" = venv ] || exit 0
for environment; do :; done
mkdir -p "$environment/bin" "$environment/lib/python3/site-packages"
cat > "$environment/bin/python" <<'END'
#!/bin/sh
case "$*" in *" download "*) exec cp {archive} "$TMPDIR" ;; esac
cat "$TMPDIR/horovod-0.28.1/setup.py"
exit 7
END
chmod +x "$environment/bin/python"
"""


def run(*arguments: str, program: Path = PROGRAM, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, str(program), *arguments], env=environment, capture_output=True, text=True, check=False
    )


def place(cache: Path, *, program: Path = PROGRAM, **variables: str) -> str:
    return run("path", program=program, GPUBENCH_CACHE=str(cache), **variables).stdout.strip()


def copy_of_the_program(folder: Path) -> Path:
    shutil.copytree(PATCHES, folder / PATCHES.name)
    return Path(shutil.copy(PROGRAM, folder))


def test_the_place_depends_on_flags_and_on_nothing_accidental(tmp_path: Path) -> None:
    plain = place(tmp_path)
    assert plain.startswith(str(tmp_path / "horovod"))
    assert place(tmp_path, UNRELATED="1") == plain
    assert place(tmp_path, HOROVOD_GPU_OPERATIONS="NCCL") != plain
    assert place(tmp_path, CXXFLAGS="-O1") != plain


def test_the_place_depends_on_what_the_patches_say(tmp_path: Path) -> None:
    program = copy_of_the_program(tmp_path)
    before = place(tmp_path, program=program)
    assert before == place(tmp_path)
    with next((tmp_path / PATCHES.name).iterdir()).open("a") as patch:
        patch.write("\n")
    assert place(tmp_path, program=program) != before


@pytest.mark.parametrize(
    ("content", "patched"),
    [("zero\none\ntwo\n", "zero\none\n2\n"), ("one\n\ntwo\n", None), ("one\ntwo\none\ntwo\n", None)],
    ids=["once", "never", "twice"],
)
def test_a_patch_is_applied_where_its_lines_stand_and_nowhere_else(
    tmp_path: Path, content: str, patched: str | None
) -> None:
    program = copy_of_the_program(tmp_path)
    patch = tmp_path / PATCHES.name / "own.patch"
    for other in patch.parent.iterdir():
        other.unlink()
    patch.write_text("Its reason.\n\n--- a/setup.py\n+++ b/setup.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
    source = tmp_path / "horovod-0.28.1"
    source.mkdir()
    (source / "setup.py").write_text(content)
    uv = tmp_path / "uv"
    uv.write_text(UV.format(archive=shutil.make_archive(str(source), "gztar", tmp_path, source.name)))
    uv.chmod(0o755)
    ended = run("build", program=program, GPUBENCH_CACHE=str(tmp_path / "cache"), UV=str(uv))
    assert ended.returncode == 1
    if patched is None:
        assert f"horovod_wheel: the patch {patch} does not fit setup.py of Horovod 0.28.1: " in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
    else:
        assert ended.stderr.endswith(f"its end:\n{patched}")


def test_a_missing_compiler_is_named_with_the_remedy(tmp_path: Path) -> None:
    ended = run("build", GPUBENCH_CACHE=str(tmp_path), CXX=str(tmp_path / "no-compiler"))
    assert ended.returncode == 1
    assert "no C++ compiler" in ended.stderr
    assert "install g++" in ended.stderr


def test_an_interpreter_without_tensorflow_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')  # without its installed packages
    bare.chmod(0o755)
    ended = run("build", "--python", str(bare), GPUBENCH_CACHE=str(tmp_path))
    assert ended.returncode == 1
    assert "has no TensorFlow" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_build_that_is_stopped_says_so_and_leaves_no_compiler_behind(tmp_path: Path, number: signal.Signals) -> None:
    slow = tmp_path / "uv"
    pid = tmp_path / "compiler"
    slow.write_text(f"#!/bin/sh\nsleep 3600 &\necho $! > {pid}.new\nmv {pid}.new {pid}\nwait\n")
    slow.chmod(0o755)
    environment = {**os.environ, "GPUBENCH_CACHE": str(tmp_path / "cache"), "UV": str(slow)}
    build = subprocess.Popen(
        [sys.executable, str(PROGRAM), "build"], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(pid.exists)
        compiler = psutil.Process(int(pid.read_text()))
        build.send_signal(number)
        _, said = build.communicate(timeout=SECONDS_UP)
        assert (build.returncode, said.splitlines()) == (
            128 + number,
            [f"horovod: stopped by {number.name}; nothing of it runs any more"],
        )
        wait_until(lambda: not compiler.is_running() or compiler.status() == psutil.STATUS_ZOMBIE)
    finally:
        build.kill()
    assert not list((tmp_path / "cache" / "horovod").glob("*.building-*"))


def test_a_build_that_fails_leaves_its_log_and_no_wheel(tmp_path: Path) -> None:
    broken = tmp_path / "uv"
    broken.write_text("#!/bin/sh\necho 'disk on fire'\nexit 3\n")
    broken.chmod(0o755)
    ended = run("build", GPUBENCH_CACHE=str(tmp_path / "cache"), UV=str(broken))
    assert ended.returncode == 1
    assert "disk on fire" in ended.stderr
    kept = [path for path in (tmp_path / "cache" / "horovod").iterdir() if path.suffix != ".lock"]
    assert [path.suffix for path in kept] == [".log"]
    assert "disk on fire" in kept[0].read_text()
