#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is in an image, as CycloneDX. Without its number and time, which would differ in each build.
#
#   sbom.sh python EXTRA...   the locked packages of some extras; in the folder of uv.lock
#   sbom.sh system BASE       and Debian's packages, in the stage that is shipped, which began with the image BASE
set -eu
command=$1
shift
sbom=${ROOT:-}/opt/gpubench/share/sbom.cdx.json # a test has a ROOT

if [ "$command" = python ]; then
  for extra in "$@"; do
    shift
    set -- "$@" --extra "$extra"
  done
  mkdir -p "${sbom%/*}"
  uv export --locked --no-dev "$@" --format cyclonedx1.5 --quiet --output-file /sbom.json
  python3 -c 'import json; s = json.load(open("/sbom.json")); del s["serialNumber"], s["metadata"]["timestamp"]; print(json.dumps(s))' \
    > "$sbom"
  exit
fi

# shellcheck source=/dev/null
. "${ROOT:-}/etc/os-release"
dpkg-query --show --showformat '${db:Status-Status} ${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n' \
  > "$sbom.packages"
python3 - "$sbom" "$1" "$ID" "$VERSION_ID" "${ROOT:-}/usr/share/doc" <<'PROGRAM'
import json, pathlib, re, sys
from urllib.parse import quote

path, base, vendor, release, documents = sys.argv[1:]


def encoded(text):  # as package URLs have it: of the reserved characters, only the colon stays
    return quote(text, safe=":")


def licences(package):
    # A copyright file that machines can read, and that names one licence: by Debian's name, which is not always SPDX's.
    try:
        text = pathlib.Path(documents, package, "copyright").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    named = set(re.findall(r"^License: *(.*\S)", text, re.MULTILINE)) if text.startswith("Format:") else ()
    return {"licenses": [{"license": {"name": name}} for name in named]} if len(named) == 1 else {}


def component(package, version, architecture, source, source_version):
    purl = f"pkg:deb/{vendor}/{encoded(package)}@{encoded(version)}?arch={architecture}&distro={vendor}-{release}"
    if (source, source_version) != (package, version):  # which Debian's lists of vulnerabilities name
        purl += f"&upstream={encoded(source)}%40{encoded(source_version)}"
    return {"type": "library", "bom-ref": purl, "name": package, "version": version, "purl": purl, **licences(package)}


lines = [line.split() for line in pathlib.Path(f"{path}.packages").read_text(encoding="utf-8").splitlines()]
system = [component(*fields) for status, *fields in lines if status == "installed"]
if not system:
    sys.exit("dpkg-query names no package: BASE must be a Debian or Ubuntu")
sbom = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
image = {"type": "operating-system", "bom-ref": "base", "name": vendor, "version": release}
image["properties"] = [{"name": "org.opencontainers.image.base.name", "value": base}]
sbom["components"] += [image, *system]
pathlib.Path(path).write_text(json.dumps(sbom) + "\n", encoding="utf-8")
PROGRAM
rm "$sbom.packages"
