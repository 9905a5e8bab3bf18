#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is in an image, as CycloneDX: the locked packages of some extras. Without its number and time, which would differ
# in each build.
#
#   sbom.sh EXTRA...      in the folder of uv.lock
set -eu
for extra in "$@"; do
  shift
  set -- "$@" --extra "$extra"
done
mkdir -p /opt/gpubench/share
uv export --locked --no-dev "$@" --format cyclonedx1.5 --quiet --output-file /sbom.json
python3 -c 'import json; s = json.load(open("/sbom.json")); del s["serialNumber"], s["metadata"]["timestamp"]; print(json.dumps(s))' \
  > /opt/gpubench/share/sbom.cdx.json
