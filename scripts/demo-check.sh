#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the demonstration as a user would: it has to end by itself with 0 in under 10 seconds and leave captures, which are
# kept for tshark.
set -eu
cd "$(dirname "$0")/.."
captures=${CAPTURE_DIR:-.build/captures}
mkdir -p "$captures"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
TMPDIR=$folder timeout 10 .build/debug/ble demo
left=$(find "$folder" -name '*.btsnoop' -size +16c)
[ -n "$left" ] || {
  echo "the demonstration left no capture"
  exit 1
}
for file in $left; do cp "$file" "$captures/demo-$(basename "$file")"; done
