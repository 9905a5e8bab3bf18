# SPDX-License-Identifier: Apache-2.0
"""The project's images, built from its own Containerfiles by buildah, as files that containerd imports.

The base image is Debian by debootstrap, in place of the public one that the Containerfiles name. Base, layers and the
finished files are kept in the cache, each under what decides its content; nothing of a run is. What may not happen
here: a half-written file under its name, or a mount that stays (buildah runs in namespaces of its own).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import e2e_machine

REPOSITORY = Path(__file__).resolve().parents[2]
SUITE = "bookworm"  # the Debian of the Containerfiles' own base
BASE_PACKAGES = "ca-certificates"
BASE = "localhost/gpubench-e2e-base"
BASE_KEY = hashlib.sha256(f"{SUITE} {BASE_PACKAGES}".encode()).hexdigest()[:16]
#: As chart and quick start name them, in the form in which a kubelet looks for them.
OPERATOR = "docker.io/library/gpubench-operator:{version}"
JOBS = "docker.io/library/gpubench-jobs:dev"
JOBS_GPU = "docker.io/library/gpubench-jobs:gpu"
PAUSE = "docker.io/library/gpubench-e2e-pause:dev"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
UNUSED_DAYS = 14  # then layers are built afresh, with the Debian packages of that day
BUILD_SECONDS = 1500.0
SLOW_SECONDS = 60.0


class ImageError(RuntimeError):
    """An image could not be built; the text has the end of what the builder said."""


def version() -> str:
    """Of gpubench, by the file that every build takes it from."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def build(*, cache: Path, work: Path, logs: Path, pause_program: Path) -> tuple[Path, ...]:
    """The images of this checkout, each as a file in docker-archive form with the name above in it."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one builder at a time: they share the layers
        builder = _Builder(cache=cache, work=work, logs=logs)
        builder.forget_old_layers()
        builder.build_base()
        labels = _labels()
        operator, jobs = REPOSITORY / "operator" / "Containerfile", REPOSITORY / "jobs" / "Containerfile"
        ours = _what_a_build_sees()
        return (
            builder.image(PAUSE, _pause_file(work), sources=[pause_program], arguments={}),
            builder.image(OPERATOR.format(version=version()), operator, sources=ours, arguments=labels),
            builder.image(JOBS, jobs, sources=ours, arguments=labels, target="cpu"),
        )


def build_for_gpus(*, cache: Path, work: Path, logs: Path) -> None:
    """The image of a gang on GPUs, of its Containerfile's defaults: built, with the checks at the end, and removed."""
    cache.mkdir(parents=True, exist_ok=True)
    builder = _Builder(cache=cache, work=work, logs=logs)
    builder.forget_old_layers()
    builder.build_base()
    options = [f"--build-arg={key}={value}" for key, value in _labels().items()]
    builder.build([*options, "--target=gpu"], REPOSITORY / "jobs" / "Containerfile", name=JOBS_GPU, context=REPOSITORY)
    shutil.rmtree(cache)  # some 30 GB; those of a build that failed stay, for the next one


def _labels() -> dict[str, str]:
    return {"BASE": BASE, "VERSION": version(), "REVISION": _revision()}


def _what_a_build_sees() -> list[Path]:
    """The files and folders that .dockerignore lets in, and itself first: it stands where they are relative to."""
    ignore = REPOSITORY / ".dockerignore"
    lines = ignore.read_text(encoding="utf-8").splitlines()
    return [ignore, *(REPOSITORY / line[1:] for line in lines if line.startswith("!"))]


def _key(sources: Sequence[Path], *, options: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join((BASE_KEY, *options)).encode())
    for source in sources:
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for path in files:
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.name}\0{path.stat().st_mode}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _pause_file(work: Path) -> Path:
    path = work / "Containerfile.pause"
    path.write_text('FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n', encoding="ascii")
    return path


def _revision() -> str:
    done = subprocess.run(
        ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"], capture_output=True, text=True, check=False, timeout=30
    )
    return done.stdout.strip() or "unknown"  # a copy without its history


@dataclass(frozen=True, kw_only=True)
class _Builder:
    cache: Path
    work: Path
    logs: Path

    def image(
        self, name: str, file: Path, *, sources: Sequence[Path], arguments: dict[str, str], target: str | None = None
    ) -> Path:
        """The file with the image, built unless there is one of exactly these sources."""
        short = name.rpartition("/")[2].partition(":")[0]
        context = sources[0].parent
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        options += [f"--target={target}"] if target is not None else []
        path = self.cache / "archives" / f"{short}-{_key([file, *sources], options=[name, *options])}.tar"
        if path.exists():
            return path
        path.parent.mkdir(exist_ok=True)
        begun = time.monotonic()
        self.build(options, file, name=name, context=context)
        with _beside(path) as unfinished:
            self._buildah(["push", "--quiet"], [name, f"docker-archive:{unfinished}:{name}"], log=f"push-{short}")
        for other in path.parent.glob(f"{short}-*.tar"):
            if other != path:
                other.unlink()
        size = path.stat().st_size / 2**20
        print(f"    {name}: {size:.0f} MiB, {time.monotonic() - begun:.0f} s", flush=True)
        return path

    def build(self, options: Sequence[str], file: Path, *, name: str, context: Path) -> None:
        """The image, in the builder's storage."""
        command = ["build", "--isolation=chroot", "--layers", *self._trust(), *options]
        short = name.rpartition("/")[2].partition(":")[0]
        self._buildah([*command, f"--file={file}", f"--tag={name}"], [str(context)], log=f"build-{short}")

    def build_base(self) -> None:
        """Debian's smallest system, as the image that the others begin with."""
        archive = self.cache / f"base-{BASE_KEY}.tar"
        if not archive.exists():
            begun = time.monotonic()
            with tempfile.TemporaryDirectory(dir=self.work) as scratch, _beside(archive) as unfinished:
                root = Path(scratch) / "root"
                bootstrap = ["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", SUITE, str(root)]
                self._run([*e2e_machine.apart(), *bootstrap], log="debootstrap")
                pack = ["tar", "--directory", str(root), "--create", "--one-file-system", "--sort=name", "--file"]
                self._run([*pack, str(unfinished), "."], log="debootstrap")
            print(f"    base by debootstrap: {time.monotonic() - begun:.0f} s", flush=True)
        file = self.work / "Containerfile.base"
        file.write_text(f"FROM scratch\nADD {archive.name} /\n", encoding="ascii")
        with tempfile.TemporaryDirectory(dir=self.cache) as context:
            (Path(context) / archive.name).hardlink_to(archive)
            self._buildah(["build", "--layers", f"--file={file}", f"--tag={BASE}"], [context], log="build-base")

    def forget_old_layers(self) -> None:
        """Layers of older sources are never needed again; all of them go, as buildah cannot tell which these are."""
        born = self.cache / "storage" / "born"
        if born.exists() and born.stat().st_mtime > time.time() - UNUSED_DAYS * 86_400:
            self._buildah(["rm", "--all"], [], log="build-rm")  # of builds that were killed
            return
        for made_of_them in (self.cache / "storage", self.cache / "archives", *self.cache.glob("base-*.tar")):
            if made_of_them.is_dir():
                shutil.rmtree(made_of_them)
            else:
                made_of_them.unlink(missing_ok=True)
        born.parent.mkdir()
        born.touch()

    def _trust(self) -> list[str]:
        """The machine's own certificates, for machines whose way out has an authority of its own; not in any layer."""
        if not CERTIFICATES.exists():
            return []
        pip, uv = self.work / "pip.conf", self.work / "uv.toml"
        pip.write_text(f"[global]\ncert = {CERTIFICATES}\n", encoding="ascii")
        uv.write_text("system-certs = true\n", encoding="ascii")
        mounts = {CERTIFICATES: CERTIFICATES, pip: Path("/etc/pip.conf"), uv: Path("/etc/uv/uv.toml")}
        return [f"--volume={here}:{there}:ro" for here, there in mounts.items()]

    def _buildah(self, options: list[str], rest: list[str], *, log: str) -> None:
        storage = [f"--root={self.cache / 'storage'}", f"--runroot={self.work / 'buildah'}", "--storage-driver=overlay"]
        command = ["buildah", *storage, *options, *rest]
        self._run([*e2e_machine.apart(), *command], log=log)

    def _run(self, command: list[str], *, log: str) -> None:
        temporary = self.cache / "tmp"  # buildah keeps the folders of RUN --mount=type=cache there
        temporary.mkdir(exist_ok=True)
        path = self.logs / f"{log}.log"
        with path.open("ab") as output:
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "TMPDIR": str(temporary)},
                    check=False,
                    timeout=BUILD_SECONDS,
                )
            except subprocess.TimeoutExpired:
                raise ImageError(f"{log} took longer than {BUILD_SECONDS:.0f} s; see {path}") from None
        if done.returncode != 0:
            tail = "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
            raise ImageError(f"{log} failed; whole log: {path}; its end:\n{tail}")


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A name to write under, which becomes `path` when that is done."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        yield unfinished
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)
