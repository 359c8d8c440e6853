#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh: makes what run.sh boots, in .build/kernel-lab: Debian's kernel with its modules, unpacked and not installed, and
# a first root file system. Safe to run again; scripts/setup.sh installs the packages that it needs, and calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.build/kernel-lab
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# The package that linux-image-amd64 stands for. Not -cloud-: that one has no Bluetooth.
kernel_package() {
  apt-cache show --no-all-versions linux-image-amd64 2>/dev/null |
    sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p' | head -n 1
}

download() { # into the folder $1; prints the package's name
  local package
  package=$(kernel_package)
  [ -n "$package" ] || return 1
  (cd "$1" && apt-get -q -o APT::Sandbox::User=root download "$package" >apt.log 2>&1) || return 1
  printf '%s\n' "$package"
}

if [ ! -s "$cache/kernel/version" ]; then
  work=$(mktemp -d "$cache/new.XXXXXX")
  echo "kernel lab: fetching Debian's kernel"
  # What apt knows may be too old, or nothing.
  package=$(download "$work") || {
    as_root apt-get update -q >/dev/null
    package=$(download "$work") || {
      echo "kernel lab: apt cannot download linux-image-amd64" >&2
      cat "$work/apt.log" >&2 2>/dev/null || true
      exit 1
    }
  }
  version=${package#linux-image-}
  mkdir "$work/tree" "$work/kernel"
  # Without the drivers of what the guest cannot have.
  dpkg-deb --fsys-tarfile "$work"/*.deb | tar -x -C "$work/tree" --no-same-owner \
    --exclude='*/kernel/sound' --exclude='*/drivers/gpu' --exclude='*/drivers/media' \
    --exclude='*/drivers/infiniband' --exclude='*/drivers/scsi' --exclude='*/drivers/iio' \
    --exclude='*/drivers/staging' --exclude='*/drivers/net/ethernet' \
    --exclude='*/drivers/net/wireless' ./boot ./lib/modules
  /sbin/depmod -b "$work/tree" "$version"
  mv "$work/tree/boot/vmlinuz-$version" "$work/kernel/vmlinuz"
  mv "$work/tree/lib/modules/$version" "$work/kernel/modules"
  # The unpacked image spares the guest its decompression: seconds, when emulated. A kernel that is not xz boots packed.
  /usr/bin/python3 - "$work/kernel" <<'PY' || ln -s vmlinuz "$work/kernel/image"
import lzma, sys
data = open(sys.argv[1] + '/vmlinuz', 'rb').read()
image = lzma.LZMADecompressor().decompress(data[data.index(b'\xfd7zXZ\0'):])
assert image[:4] == b'\x7fELF'
open(sys.argv[1] + '/image', 'wb').write(image)
PY
  printf '%s\n' "$version" >"$work/kernel/version"
  rm -rf "$cache/kernel" "$cache/initramfs.cpio"
  mv "$work/kernel" "$cache/kernel"
  rm -rf "$work"
fi
version=$(cat "$cache/kernel/version")

# busybox, the modules up to the host's root file system, and /init.
if [ ! -s "$cache/initramfs.cpio" ] || [ KernelLab/guest/init -nt "$cache/initramfs.cpio" ] ||
  [ KernelLab/setup.sh -nt "$cache/initramfs.cpio" ]; then
  work=$(mktemp -d "$cache/new.XXXXXX")
  mkdir -p "$work/base/lib/modules" "$work/ram"/{bin,modules,proc,sys,dev,lower,upper,new}
  ln -s "$cache/kernel/modules" "$work/base/lib/modules/$version"
  number=100
  for module in virtio_pci virtio_console 9pnet_virtio 9p overlay; do
    while read -r kind file _; do
      [ "$kind" = insmod ] || continue
      compgen -G "$work/ram/modules/*-${file##*/}" >/dev/null && continue
      cp "$file" "$work/ram/modules/$((number++))-${file##*/}"
    done < <(/sbin/modprobe -d "$work/base" -S "$version" --show-depends "$module")
  done
  cp "$(command -v busybox)" "$work/ram/bin/busybox"
  install -m 755 KernelLab/guest/init "$work/ram/init"
  (cd "$work/ram" && find . | LC_ALL=C sort | cpio -o -H newc --quiet) >"$work/cpio"
  mv "$work/cpio" "$cache/initramfs.cpio"
fi
