#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The rules of docs/style.md that can be counted. Prints what breaks them and ends with 1; prints one line if nothing does.
set -u
cd "$(dirname "$0")/.." || exit 2
found=$(mktemp) || exit 2
trap 'rm -f "$found"' EXIT

# What git knows or would add; without git everything but the build's products.
files() {
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
      [ -f "$file" ] && printf '%s\n' "$file"
    done
  else
    for folder in "$@"; do find "$folder" -type f 2>/dev/null; done
  fi
}

# report TEXT: the lines on standard input break a rule.
report() {
  lines=$(cat)
  [ -z "$lines" ] || printf '%s\n%s\n\n' "$1" "$lines" >>"$found"
}

# search PATTERN: in the files on standard input. Comment lines do not count.
search() {
  tr '\n' '\0' | xargs -0 -r grep -HnE -e "$1" 2>/dev/null | grep -vE '^[^:]*:[0-9]+: *(//|#)'
}

below='^Sources/(BLECore|BLECrypto|BLEHCI|BLEL2CAP|BLEGATT|BLESMP|BLEHost|BLERadio|BLEProfile)/'
swift_files() { files Sources Tests Examples Benchmarks Package.swift | grep '\.swift$'; }
libraries() { files Sources | grep '\.swift$' | grep -v '^Sources/ble/'; }

swift_files | while IFS= read -r file; do
  # Package.swift has the version of its format first.
  head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
done | report "No SPDX line on top:"
files scripts Interop KernelLab Benchmarks Makefile | grep -E '\.(sh|py)$|Makefile$' | while IFS= read -r file; do
  head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
done | report "No SPDX line on top:"

swift_files | while IFS= read -r file; do
  lines=$(wc -l <"$file")
  [ "$lines" -le 1000 ] || echo "$file has $lines lines"
done | report "Longer than 1,000 lines:"

libraries | search '(^|[^A-Za-z_.])(debugPrint|print|dump)\(' | report "Printing in a library:"

files Sources | grep '\.swift$' | search 'fatalError\(|preconditionFailure\(|try!|[^A-Za-z_]as!' |
  grep -v '// own misuse' | report "A trap that is not marked as the app's own misuse:"

files Sources | grep '\.swift$' | grep -E "$below" |
  search '(^|[^A-Za-z])(Date|Thread|NSLock|DispatchQueue|DispatchTime|ContinuousClock|SuspendingClock|SystemRandomNumberGenerator)[.(]|Mutex<|(^|[^A-Za-z])Task(\.detached)? *[({]|clock_gettime|^ *(public |package |internal )?import (Dispatch|Foundation|Synchronization)' |
  report "A clock, thread, lock or Foundation below BLESystem:"

# Where the apps under test are in virtual time their sleeps take none.
files Tests | grep '\.swift$' | grep -v '^Tests/CoreBluetoothTestingTests/' |
  search 'Task\.sleep|Thread\.sleep|(^|[^A-Za-z])(usleep|sleep|nanosleep)\(' | report "A test that sleeps:"

files Sources Tests | grep '\.swift$' | search '(^|[^A-Z])(TODO|FIXME|XXX)([^A-Z]|$)' | report "Unfinished:"

# Home folders, and the folder that this checkout is in, wherever that is.
here=$(dirname "$(pwd -P)")
[ "$here" != / ] || here=/nowhere
files . | grep -vE '^(\./)?(Vectors/|\.git/|\.build/)' | tr '\n' '\0' |
  xargs -0 -r grep -HnE -e '(/home/|/Users/|/root/)[A-Za-z0-9._-]+' -e "$here/" 2>/dev/null |
  grep -v '^\(\./\)\{0,1\}scripts/tidy.sh:' | report "A path of one machine:"

if [ -s "$found" ]; then
  cat "$found"
  exit 1
fi
echo "tidy: $(swift_files | wc -l) Swift files keep the rules"
