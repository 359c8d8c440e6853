#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# test.sh [STAGE…]: the stages of `make test`, all or those named, in this order:
#   setup format tidy build unit client endtoend interop kernel tshark allocations sanitize
# Prints minutes per stage and ends with a line "N passed, N failed"; exit code 0 where nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 2
all="setup format tidy build unit client endtoend interop kernel tshark allocations sanitize"
stages=${*:-$all}

logs=.build/test-logs
export CAPTURE_DIR="$PWD/.build/captures"
mkdir -p "$logs"
case " $stages " in *" endtoend "* | *" interop "*) rm -rf "$CAPTURE_DIR" ;; esac
mkdir -p "$CAPTURE_DIR"
# The backtracer takes minutes where a test is meant to crash; no test may find an adapter of this machine's owner.
export SWIFT_BACKTRACE=enable=no
unset COREBLUETOOTH_ADAPTER COREBLUETOOTH_CAPTURE COREBLUETOOTH_LOG COREBLUETOOTH_NAME
export COREBLUETOOTH_STATE_DIR="$PWD/.build/test-state"

passed=0
failed=0
failures=()
pass() { passed=$((passed + ${1:-1})); }
fail() {
  failed=$((failed + 1))
  failures+=("$1")
  echo "FAILED: $1"
}

# once NAME COMMAND…: a stage that passes or fails as a whole; its output is shown where it failed.
once() {
  local name=$1
  shift
  if "$@" >"$logs/$name.log" 2>&1; then pass; else
    tail -n 60 "$logs/$name.log"
    fail "$name: $* (all of it: $logs/$name.log)"
  fi
}

# swift_tests NAME EXPECTED COMMAND…: runs Swift tests and counts them; not having run all that were listed is a failure,
# since a filter that matches nothing succeeds.
swift_tests() {
  local name=$1 expected=$2 log="$logs/$1.log"
  shift 2
  "$@" >"$log" 2>&1
  local code=$?
  local summary ran bad
  summary=$(grep -E 'Test run with [0-9]+ tests?' "$log" | tail -n 1)
  ran=$(printf '%s\n' "$summary" | sed -nE 's/.*Test run with ([0-9]+) tests?.*/\1/p')
  bad=$(grep -E '^(✘|.*[^[:print:]]) Test .* failed after' "$log" | grep -cv 'Test run with')
  if [ -z "$ran" ]; then
    tail -n 40 "$log"
    fail "$name: the tests ended without a summary, exit code $code (all of it: $log)"
    return
  fi
  if [ "$ran" -ne "$expected" ]; then fail "$name: $ran tests ran of the $expected that there are"; fi
  if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  if [ "$bad" -gt 0 ]; then
    grep -E '✘|recorded an issue|error:' "$log" | head -n 60
    failed=$((failed + bad - 1))
    fail "$name: $bad of $ran tests (all of it: $log)"
  fi
  pass $((ran - bad))
  echo "$name: $ran tests, $bad failed"
}

# How many tests there are whose name matches $1 and not $2.
count_tests() { grep -E "$1" "$logs/list" | grep -vcE "$2"; }

list_tests() {
  # Builds what is out of date.
  swift test list >"$logs/list" 2>"$logs/list.log" || { fail "the tests cannot be listed"; return 1; }
  local folder target
  # A folder of tests that lost all of its tests would not be missed otherwise.
  for folder in Tests/*Tests; do
    target=$(basename "$folder")
    grep -q "^$target\." "$logs/list" || fail "$target has no test"
  done
}

stage_setup() { once setup scripts/setup.sh test; }
stage_format() { once format swift format lint --strict -r Package.swift Sources Tests Examples Benchmarks/Package.swift Benchmarks/Sources; }
stage_tidy() { once tidy scripts/tidy.sh; }
# Warnings are errors in every target (Package.swift), so building is the check.
stage_build() { once build swift build --build-tests; }

stage_unit() {
  list_tests || return
  swift_tests unit "$(count_tests . '^EndToEndTests\.')" swift test --skip-build --skip '^EndToEndTests\.'
}

stage_client() { once client scripts/client-check.sh; }

stage_endtoend() {
  list_tests || return
  swift_tests endtoend "$(count_tests '^EndToEndTests\.' '^$')" swift test --skip-build --filter '^EndToEndTests\.'
  once demo scripts/demo-check.sh
}

# checks NAME COMMAND…: runs a program that prints `ok …` or `FAIL …` for each of its checks, and counts them.
checks() {
  local name=$1 log="$logs/$1.log" code good bad
  shift
  "$@" 2>"$logs/$name.err" | tee "$log"
  code=${PIPESTATUS[0]}
  good=$(grep -c '^ok ' "$log")
  bad=$(grep -c '^FAIL ' "$log")
  if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  pass "$good"
  if [ "$good" -eq 0 ]; then
    tail -n 20 "$logs/$name.err"
    fail "$name: nothing was checked (see $logs/$name.err)"
  fi
  if [ "$bad" -gt 0 ]; then
    failed=$((failed + bad - 1))
    fail "$name: $bad checks, exit code $code (see $log and $logs/$name.err)"
  fi
}

stage_interop() {
  checks interop .build/interop/bin/python Interop/run.py --ble .build/debug/ble --captures "$CAPTURE_DIR"
}

# Debian's kernel in QEMU, its adapters and our host on one of them: KernelLab/README.md.
stage_kernel() {
  local captures="$PWD/.build/kernel-lab/captures" files
  rm -rf "$captures"
  LAB_OUT=$captures LAB_CONSOLE="$logs/kernel.console" checks kernel KernelLab/run.sh \
    .build/interop/bin/python KernelLab/test.py --ble .build/debug/ble --captures "$captures"
  files=$(find "$captures" -name '*.btsnoop' -size +16c | sort)
  # shellcheck disable=SC2086
  once kernel-captures Interop/check_capture.sh $files
  tail -n 1 "$logs/kernel-captures.log"
}

stage_tshark() {
  local captures
  captures=$(find "$CAPTURE_DIR" -name '*.btsnoop' -size +16c | sort)
  if [ -z "$captures" ]; then
    fail "tshark: no capture was left by the stages endtoend and interop"
    return
  fi
  # shellcheck disable=SC2086
  once tshark Interop/check_capture.sh $captures
  tail -n 1 "$logs/tshark.log"
  captures=$(find "$CAPTURE_DIR" -name '*-air.pcap' -size +24c | sort)
  if [ -z "$captures" ]; then
    fail "tshark: no capture of the air was left by the stage interop"
    return
  fi
  # shellcheck disable=SC2086
  once tshark-air Interop/check_air.sh $captures
  tail -n 1 "$logs/tshark-air.log"
}

# What notifications cost on the heap, counted exactly, against Benchmarks/Thresholds.
stage_allocations() {
  local log="$logs/allocations.log"
  Benchmarks/build.sh >"$logs/benchmarks.log" 2>&1 || {
    tail -n 40 "$logs/benchmarks.log"
    fail "allocations: the benchmarks do not build (all of it: $logs/benchmarks.log)"
    return
  }
  /usr/bin/python3 Benchmarks/run.py --allocations >"$log" 2>&1
  local code=$?
  cat "$log"
  pass "$(grep -c '^ok ' "$log")"
  if [ "$code" -ne 0 ] || ! grep -q '^ok ' "$log"; then fail "allocations: more than the thresholds allow ($log)"; fi
}

# The address sanitizer. Not the thread sanitizer: on Linux it takes the waiting path of Swift's Mutex, which is in a library
# that was not built for it, for a race; a program of ten lines with one Mutex shows that (Swift 6.3).
# Leaks are not looked for: what is alive when a test process ends is no fault of the stack. Without the two tests that run
# whole worlds for minutes; soak.sh has them all.
stage_sanitize() {
  local left='^EndToEndTests\.|^CoreBluetoothTestingTests\.(Explorer|Determinism)Tests'
  list_tests || return
  swift_tests sanitize "$(count_tests . "$left")" \
    env ASAN_OPTIONS=detect_leaks=0 swift test --sanitize address --scratch-path .build/asan --skip "$left"
  if grep -q 'AddressSanitizer' "$logs/sanitize.log"; then
    grep -A 12 -m 3 'AddressSanitizer' "$logs/sanitize.log"
    fail "sanitize: the address sanitizer reports"
  fi
}

minutes=()
for stage in $stages; do
  case " $all " in *" $stage "*) ;; *)
    echo "there is no stage $stage; there are $all" >&2
    exit 2
    ;;
  esac
  echo "== $stage"
  begin=$SECONDS
  before=$failed
  "stage_$stage"
  took=$((SECONDS - begin))
  minutes+=("$(printf '%-10s %3d.%d min' "$stage" $((took / 60)) $((took % 60 / 6)))")
  # Nothing of what follows can be trusted without these.
  case $stage in setup | build) [ "$failed" -eq "$before" ] || break ;; esac
done

echo
echo "Minutes per stage"
printf '  %s\n' "${minutes[@]}"
[ "${#failures[@]}" -eq 0 ] || printf 'failed: %s\n' "${failures[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
