# SPDX-License-Identifier: Apache-2.0
# The commands of this repository; "make help" lists them.

.PHONY: help demo test soak bench format tidy clean

help:
	@echo "make demo     build, then watch two Core Bluetooth programs meet over the virtual radio"
	@echo "make test     everything that is tested; stages by name: scripts/test.sh unit interop"
	@echo "make bench    our speed beside Bumble's: one table, and JSON (docs/benchmarks.md)"
	@echo "make soak     for an hour or more: the address sanitizer, hostile octets at other seeds"
	@echo "make format   format the Swift sources"
	@echo "make tidy     the rules of docs/style.md that can be counted"
	@echo "make clean    remove everything that was built"

demo:
	@scripts/setup.sh demo
	swift build --product HeartRatePeripheral
	swift build --product HeartRateCentral
	swift build --product ble
	@.build/debug/ble demo

test:
	@scripts/test.sh

soak:
	@scripts/soak.sh

bench:
	@scripts/setup.sh test
	@Benchmarks/build.sh
	@Benchmarks/run.py

format:
	swift format -i -r Package.swift Sources Tests Examples Benchmarks/Package.swift Benchmarks/Sources

tidy:
	@scripts/tidy.sh

clean:
	rm -rf .build
