// SPDX-License-Identifier: Apache-2.0
// A header-only target still needs one source file.
