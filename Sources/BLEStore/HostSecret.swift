// SPDX-License-Identifier: Apache-2.0

import BLECrypto
import Glibc

/// The secret of this host: 32 random octets in one file, made at first use and never changed. From it come the
/// identifiers of peers and the host's own random address, so that both stay the same without being stored.
public enum HostSecret {
  public static let byteCount = 32

  /// Why there is no lasting secret; the words name the file.
  public struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
    public var description: String
  }

  /// The directory for what must outlive a program: `COREBLUETOOTH_STATE_DIR`, else `corebluetooth` in the XDG
  /// state directory, else nil (no home).
  public static func stateDirectory() -> String? {
    if let path = environment("COREBLUETOOTH_STATE_DIR") { return path }
    if let path = environment("XDG_STATE_HOME") { return path + "/corebluetooth" }
    return environment("HOME").map { $0 + "/.local/state/corebluetooth" }
  }

  /// Reads the secret in `directory`, or makes it (file mode 0600; two programs that start at once get the same one).
  public static func load(directory: String) throws(Failure) -> [UInt8] {
    let path = directory + "/host-secret"
    if let secret = try read(path) { return secret }
    try makeDirectories(directory)
    try create(path, directory: directory)
    guard let secret = try read(path) else { throw Failure(description: "\(path) vanished while it was made") }
    return secret
  }

  private static func environment(_ name: String) -> String? {
    guard let value = unsafe getenv(name) else { return nil }
    let text = unsafe String(cString: value)
    return text.isEmpty ? nil : text
  }

  private static func read(_ path: String) throws(Failure) -> [UInt8]? {
    // Nonblocking: what is there may be no file, and a pipe would be waited for.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      if errno == ENOENT { return nil }
      throw failure("cannot read", path)
    }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: byteCount + 1)
    let count = unsafe Glibc.read(descriptor, &bytes, bytes.count)
    guard count == byteCount else {
      throw Failure(
        description: "\(path) is not a host secret (it must hold \(byteCount) octets); move it away to get a new one")
    }
    return Array(bytes.prefix(byteCount))
  }

  private static func makeDirectories(_ path: String) throws(Failure) {
    var partial = path.hasPrefix("/") ? "" : "."
    for part in path.split(separator: "/") {
      partial += "/" + part
      if mkdir(partial, 0o700) != 0, errno != EEXIST { throw failure("cannot make the directory", partial) }
    }
  }

  /// Writes a file of its own and links it into place, so that nobody ever sees half a secret.
  private static func create(_ path: String, directory: String) throws(Failure) {
    let secret: [UInt8]
    do {
      secret = try SecureRandom.bytes(byteCount)
    } catch {
      throw Failure(description: "no random octets for \(path): \(error)")
    }
    let temporary = "\(directory)/.host-secret.\(getpid()).\(secret.prefix(4).reduce(0) { $0 << 8 | Int($1) })"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw failure("cannot write in", directory) }
    defer { unlink(temporary) }
    let count = unsafe write(descriptor, secret, secret.count)
    let isSaved = count == secret.count && fsync(descriptor) == 0
    close(descriptor)
    guard isSaved else { throw failure("cannot write", temporary) }
    if link(temporary, path) != 0, errno != EEXIST { throw failure("cannot make", path) }
  }

  private static func failure(_ what: String, _ path: String) -> Failure {
    let text = unsafe String(cString: strerror(errno))
    return Failure(description: "\(what) \(path): \(text)")
  }
}
