#pragma once

#include <sys/types.h>

#include <string>

namespace smex::runtime {

/// Which process of which machine, so that another one of the same machine can look after it.
struct ProcessId {
  std::string host;  ///< the machine's name
  std::string
      machine;  ///< its boot and the process's PID namespace: equal where `pid` means the same
  pid_t pid = 0;
  std::string started;  ///< in the kernel's ticks; tells a process from a later one of the same pid

  static ProcessId of_this_process();
};

/// Another process of the same machine. On systems other than Linux it is never gone.
class LocalProcess {
 public:
  explicit LocalProcess(const ProcessId& id);
  ~LocalProcess();
  LocalProcess(const LocalProcess&) = delete;
  LocalProcess& operator=(const LocalProcess&) = delete;

  /// Becomes readable when the process ends; -1 where the kernel has no such thing.
  int descriptor() const { return descriptor_; }
  /// Whether it has ended, be it that its parent has not asked for its status yet.
  bool is_gone() const;
  /// Whether a signal has stopped it.
  bool is_stopped() const;

 private:
  bool is_there() const;

  const ProcessId id_;
  int descriptor_ = -1;
  bool was_gone_ = false;
};

}  // namespace smex::runtime
