// SPDX-License-Identifier: Apache-2.0

import BLETransport
import Glibc

/// A program that was started, with its standard output and error read line by line on a loop.
final class ChildProcess {
  let name: String
  private let pid: pid_t
  private var descriptor: Int32
  private var watch: FileWatch?
  private var input: [UInt8] = []
  /// What the program ended with; nil while it runs. 128 + signal for one that was killed.
  private(set) var exitCode: Int32?
  private let line: (String) -> Void
  private let ended: (Int32) -> Void

  /// Starts `path`; `environment` is added to this program's. On the loop, where `line` and `ended` are called too.
  init(
    name: String, path: String, arguments: [String], environment: [String: String], loop: EventLoop,
    line: @escaping (String) -> Void, ended: @escaping (Int32) -> Void
  ) throws(Failure) {
    self.name = name
    self.line = line
    self.ended = ended
    var pipe: [Int32] = [0, 0]
    guard unsafe Glibc.pipe(&pipe) == 0 else {
      throw .failed("no pipe for \(name): \(unsafe String(cString: strerror(errno)))")
    }
    for end in pipe { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    _ = fcntl(pipe[0], F_SETFL, O_NONBLOCK)
    defer { close(pipe[1]) }
    do throws(Failure) {
      pid = try Self.spawn(path, arguments, environment, output: pipe[1])
    } catch {
      close(pipe[0])
      throw error
    }
    descriptor = pipe[0]
    watch = loop.watch(descriptor) { [weak self] _ in self?.ready() }
  }

  deinit {
    watch?.cancel()
    if descriptor >= 0 { close(descriptor) }
  }

  func terminate() {
    if exitCode == nil { kill(pid, SIGTERM) }
  }

  private static func spawn(
    _ path: String, _ arguments: [String], _ environment: [String: String], output: Int32
  ) throws(Failure) -> pid_t {
    var actions = posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    unsafe posix_spawn_file_actions_adddup2(&actions, output, 1)
    unsafe posix_spawn_file_actions_adddup2(&actions, output, 2)
    // SIGINT and SIGTERM are ignored here, which a child would inherit.
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    unsafe sigemptyset(&signals)
    unsafe sigaddset(&signals, SIGINT)
    unsafe sigaddset(&signals, SIGTERM)
    unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
    unsafe posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
    var words = unsafe ([path] + arguments).map { unsafe strdup($0) } + [nil]
    var variables = unsafe Self.variables(environment).map { unsafe strdup($0) } + [nil]
    defer { for pointer in unsafe words + variables { unsafe free(pointer) } }
    var pid: pid_t = 0
    let result = unsafe posix_spawn(&pid, path, &actions, &attributes, &words, &variables)
    guard result == 0 else {
      throw .failed("cannot start \(path): \(unsafe String(cString: strerror(result)))")
    }
    return pid
  }

  /// This program's environment with some variables set.
  private static func variables(_ added: [String: String]) -> [String] {
    var result = added.map { "\($0.key)=\($0.value)" }.sorted()
    var entry = unsafe environ
    while let text = unsafe entry.pointee {
      let variable = unsafe String(cString: text)
      if added[String(variable.prefix { $0 != "=" })] == nil { result.append(variable) }
      unsafe entry += 1
    }
    return result
  }

  private func ready() {
    var chunk = [UInt8](repeating: 0, count: 4096)
    let count = unsafe read(descriptor, &chunk, chunk.count)
    if count < 0, errno == EAGAIN || errno == EINTR { return }
    input += chunk.prefix(max(0, count))
    while let end = input.firstIndex(of: UInt8(ascii: "\n")) {
      line(String(decoding: input[..<end], as: UTF8.self))
      input.removeSubrange(...end)
    }
    if count <= 0 { finish() }
  }

  private func finish() {
    watch?.cancel()
    watch = nil
    close(descriptor)
    descriptor = -1
    var status: Int32 = 0
    while unsafe waitpid(pid, &status, 0) < 0, errno == EINTR {}
    let code = status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
    exitCode = code
    ended(code)
  }
}
