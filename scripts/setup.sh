#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh [demo|test]: installs what is missing on a Debian system for `make demo` or `make test` (the default), and says
# what and why. Safe to run again; does nothing and needs no rights where nothing is missing.
set -eu
cd "$(dirname "$0")/.."
target=${1:-test}

missing=
need() { # need PACKAGE WHY
  if dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'; then return; fi
  echo "setup: $1 is missing: $2"
  missing="$missing $1"
}

case $target in
  demo | test) ;;
  *)
    echo "usage: scripts/setup.sh [demo|test]" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "setup: this is no Debian system; install by hand: OpenSSL's headers, pkgconf, and for the tests tshark, git and" >&2
  echo "setup: Python 3 with venv; the kernel lab needs Debian's kernel" >&2
else
  need libssl-dev "headers and library of libcrypto, for AES and random numbers"
  command -v pkg-config >/dev/null 2>&1 || need pkgconf "tells the Swift package manager where libcrypto is"
  if [ "$target" = test ]; then
    need git "lists the files that the style rules look at"
    need tshark "judges the captures"
    need python3-venv "the foreign stack that is tested against lives in a Python environment"
    need qemu-system-x86 "boots the kernel lab, a Linux kernel with Bluetooth for the tests of adapters"
    need busybox-static "mounts the files of the kernel lab's guest"
    need cpio "packs the kernel lab's first file system"
    need kmod "tells which modules the kernel lab needs"
  fi
fi

if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ]; then
    root=
  elif command -v sudo >/dev/null 2>&1; then
    root=sudo
  else
    echo "setup: run as root: apt-get install --no-install-recommends$missing" >&2
    exit 1
  fi
  # Held back on a machine that knows the packages already.
  install() { $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; }
  install >/dev/null 2>&1 || {
    $root apt-get update -q >/dev/null
    install >/dev/null
  }
  echo "setup: installed$missing"
fi

if ! command -v swift >/dev/null 2>&1; then
  echo "setup: there is no Swift; install 6.3 or later from swift.org and put its usr/bin into PATH" >&2
  exit 1
fi

if [ "$target" = test ]; then
  environment=.build/interop
  # The system's Python, as that is what python3-venv belongs to.
  python=/usr/bin/python3
  [ -x "$python" ] || python=python3
  if ! cmp -s Interop/requirements.txt "$environment/requirements.txt"; then
    echo "setup: installing Bumble, the foreign stack, into $environment"
    rm -rf "$environment"
    mkdir -p .build
    "$python" -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps -r Interop/requirements.txt
    # Last, so that an interrupted installation is begun again.
    cp Interop/requirements.txt "$environment/requirements.txt"
  fi
  # Where this fails the stage kernel tells; all the others can do without.
  KernelLab/setup.sh || echo "setup: there will be no kernel lab" >&2
fi
