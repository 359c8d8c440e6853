#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# build.sh: the release build of the benchmarks. SwiftPM keeps the plan of a build although the Package.swift of a package
# it depends on has changed, so the plan is thrown away then.
set -eu
cd "$(dirname "$0")"
plan=.build/release.yaml
if [ -f "$plan" ] && [ ../Package.swift -nt "$plan" ]; then rm -f "$plan"; fi
exec swift build -c release
