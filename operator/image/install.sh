#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The last layer of every image (both Containerfiles): gpubench itself, over the locked packages.
#
#   install.sh VERSION REVISION BASE MODULES      with the wheel in /wheel, and uv in /uv
#
# A label that is wrong is worse than none, and a program that cannot be imported must not get a name: then the build ends.
set -eu
version=$1 revision=$2 base=$3 modules=$4

/uv/bin/uv pip install --quiet --no-cache --no-deps --no-index --python /opt/gpubench/bin/python /wheel/*.whl
python -m compileall -q --invalidation-mode unchecked-hash /opt/gpubench/lib/python3.*/site-packages/gpubench*
installed=$(python -c 'import importlib.metadata as m; print(m.version("kube-gpubench"))')
if [ "$version" != "$installed" ]; then
  echo "VERSION is '$version', but this is $installed: --build-arg VERSION=$installed"
  exit 1
fi
if [ -z "$revision" ]; then
  echo "REVISION is empty: --build-arg REVISION=\$(git rev-parse HEAD)"
  exit 1
fi
python -c "import $modules"
sh /wheel/sbom.sh system "$base"
for tool in cc c++ gcc g++ ld make pip uv nvcc; do
  if command -v "$tool"; then
    echo "$tool does not belong here"
    exit 1
  fi
done
rm -r /wheel
