#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# soak.sh [ROUNDS]: all unit tests under the address sanitizer (scripts/test.sh says why not the thread sanitizer), then
# ten million octets both ways over lossy links, a thousand runs of one busy world, ten foreign hosts on one radio for an
# hour, and the hostile octets of ROUNDS other seeds (default 20). Stops at the first failure and says how to repeat it.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-20}
export SWIFT_BACKTRACE=enable=no
scripts/setup.sh test

# counted COMMAND…: fails also where no test ran.
counted() {
  local log=.build/soak.log
  "$@" 2>&1 | tee "$log" | grep -E '✘|Sanitizer|Test run with' || true
  [ "${PIPESTATUS[0]}" -eq 0 ] && grep -qE 'Test run with [1-9][0-9]* tests?.* passed' "$log" &&
    ! grep -q 'Sanitizer:' "$log"
}

echo "== address sanitizer"
counted env ASAN_OPTIONS=detect_leaks=0 swift test --sanitize address --scratch-path .build/asan --skip '^EndToEndTests\.' || {
  echo "the address sanitizer's run failed; all of it: .build/soak.log"
  exit 1
}

swift build --build-tests
echo "== ten million octets each way on each of four lossy links"
TRANSFER_OCTETS=10000000 counted swift test --skip-build --filter '^BLESystemTests\.TransferTests' || {
  echo "repeat: TRANSFER_OCTETS=10000000 swift test --filter TransferTests"
  exit 1
}
runs=${DETERMINISM_RUNS:-1000}
echo "== one hash over $runs runs of a busy world in virtual time, release"
DETERMINISM_RUNS=$runs counted swift test -c release -Xswiftc -enable-testing --scratch-path .build/soak-release \
  --filter '^CoreBluetoothTestingTests\.DeterminismTests' || {
  echo "repeat: DETERMINISM_RUNS=$runs swift test --filter DeterminismTests"
  exit 1
}
echo "== ten foreign hosts on one radio, for an hour"
.build/interop/bin/python Interop/run.py --ble .build/debug/ble --captures .build/soak-captures --seconds 3600 crowd || {
  echo "repeat: .build/interop/bin/python Interop/run.py --ble .build/debug/ble --captures .build/soak-captures --seconds 3600 crowd"
  exit 1
}
for round in $(seq 1 "$rounds"); do
  export HOSTILE_SEED=$((round * 7919))
  echo "== hostile octets, HOSTILE_SEED=$HOSTILE_SEED"
  counted swift test --skip-build --skip '^EndToEndTests\.' || {
    echo "repeat: HOSTILE_SEED=$HOSTILE_SEED swift test --skip '^EndToEndTests\.'"
    exit 1
  }
done
echo "soak: nothing found"
