#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh COMMAND [ARGUMENT…]: boots Debian's kernel in QEMU, on this machine's own files, and runs COMMAND there in the
# current folder, as root. Its output, error output and exit code come back; 124: it took too long; 125: the guest did not
# come up. README.md tells the variables.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$(dirname "$here")/.build/kernel-lab
say() { echo "kernel lab: $*" >&2; }

[ $# -gt 0 ] || { say "usage: KernelLab/run.sh COMMAND [ARGUMENT…]"; exit 125; }
if [ ! -s "$cache/initramfs.cpio" ] || [ ! -s "$cache/kernel/version" ]; then
  say "not set up; run scripts/setup.sh"
  exit 125
fi
accel=${LAB_ACCEL:-auto} limit=${LAB_TIMEOUT:-900}
boot_id=$(</proc/sys/kernel/random/boot_id)
case $accel in
  auto) # A /dev/kvm may be there and not run this kernel: that it did not is remembered until the host boots anew.
    tries=(tcg)
    if [ -r /dev/kvm ] && [ -w /dev/kvm ] && [ "$(cat "$cache/accel" 2>/dev/null)" != "tcg $boot_id" ]; then
      tries=(kvm tcg)
    fi ;;
  kvm | tcg) tries=("$accel") ;;
  *) say "LAB_ACCEL is kvm or tcg"; exit 125 ;;
esac

control=$(mktemp -d "${TMPDIR:-/tmp}/kernel-lab.XXXXXX")
qemu=
stop() { # QEMU ends well on TERM
  kill -TERM "$qemu" 2>/dev/null
  for ((i = 0; i < 60; i++)); do kill -0 "$qemu" 2>/dev/null || return 0; sleep 0.05; done
  kill -KILL "$qemu" 2>/dev/null
}
finish() {
  [ -z "$qemu" ] || stop
  rm -rf "$control"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

mkdir "$control/share"
cp "$here/guest/main" "$control/share/main"
out=
if [ -n "${LAB_OUT:-}" ]; then
  mkdir -p "$LAB_OUT" && out=$(cd "$LAB_OUT" && pwd -P) || exit 125
fi
printf 'lab_modules=%q\nlab_out=%q\nlab_timeout=%q\n' "$cache/kernel/modules" "$out" "$limit" >"$control/share/settings"
{
  # Not the whole environment.
  for name in PATH HOME LANG LC_ALL LD_LIBRARY_PATH; do
    [ -z "${!name+set}" ] || printf 'export %s=%q\n' "$name" "${!name}"
  done
  printf 'cd %q || exit 125\nexec' "$PWD"
  printf ' %q' "$@"
  echo
} >"$control/share/command"

boot() { # ACCELERATOR; 0: it ended with a status; 1: it never came up; 2: it ended badly
  local accelerator=$1 up processors begin
  case $accelerator in
    kvm) up=20 processors=2 ;;
    tcg) up=300 processors=1 ;;
  esac
  share() { echo "local,security_model=none,multidevs=remap,path=${2//,/,,},id=$1${3:-}"; }
  rm -f "$control/share/started" "$control/share/status" "$control/out" "$control/err"
  mkfifo "$control/out" "$control/err"
  cat "$control/out" & local readers=($!)
  cat "$control/err" >&2 & readers+=($!)
  # QEMU inherits these, so the readers end when it does and not before.
  exec 7>"$control/out" 8>"$control/err"
  local arguments=(
    -nodefaults -no-user-config -no-reboot -display none -machine q35 -cpu max -smp "$processors" -m 2048
    -kernel "$cache/kernel/image" -initrd "$cache/initramfs.cpio"
    -append "console=ttyS0 quiet panic=-1 mitigations=off"
    -serial "file:${control//,/,,}/console"
    -fsdev "$(share root / ,readonly=on)" -device virtio-9p-pci,fsdev=root,mount_tag=labroot
    -fsdev "$(share control "$control/share")" -device virtio-9p-pci,fsdev=control,mount_tag=labctl
    -device virtio-serial-pci
    -chardev "file,id=out,path=${control//,/,,}/out" -device virtserialport,chardev=out,name=lab.out
    -chardev "file,id=err,path=${control//,/,,}/err" -device virtserialport,chardev=err,name=lab.err
  )
  [ -z "$out" ] || arguments+=(-fsdev "$(share out "$out")" -device virtio-9p-pci,fsdev=out,mount_tag=labout)
  case $accelerator in
    tcg) arguments+=(-accel tcg,thread=multi) ;;
    kvm) arguments+=(-accel kvm) ;;
  esac
  setpriv --pdeathsig KILL qemu-system-x86_64 "${arguments[@]}" </dev/null >"$control/qemu" 2>&1 &
  qemu=$!
  exec 7>&- 8>&-
  begin=$SECONDS
  while kill -0 "$qemu" 2>/dev/null && [ ! -e "$control/share/started" ]; do
    if ((SECONDS - begin > up)); then stop; break; fi
    sleep 0.1
  done
  local end=$((SECONDS + limit + 15))
  while kill -0 "$qemu" 2>/dev/null; do
    [ -e "$control/share/status" ] && ((end > SECONDS + 5)) && end=$((SECONDS + 5))
    if ((SECONDS > end)); then stop; break; fi
    sleep 0.1
  done
  wait "$qemu" 2>/dev/null
  qemu=
  wait "${readers[@]}" 2>/dev/null
  [ -s "$control/share/status" ] && return 0
  [ -e "$control/share/started" ] && return 2
  return 1
}

for each in "${tries[@]}"; do
  boot "$each"
  how=$?
  [ -z "${LAB_CONSOLE:-}" ] || cat "$control/console" >"$LAB_CONSOLE" 2>/dev/null
  if [ "$accel" = auto ] && [ "$how" != 1 ]; then echo "$each $boot_id" >"$cache/accel"; fi
  case $how in
    0) exit "$(<"$control/share/status")" ;;
    2)
      say "the guest ended before its command did: the time limit of $limit s, or a crash"
      tail -n 20 "$control/console" >&2
      exit 124 ;;
  esac
  say "the guest does not come up with $each"
  cat "$control/qemu" >&2
  tail -n 20 "$control/console" >&2 2>/dev/null
done
exit 125
