#include "runtime/processes/local_process.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <vector>

#if defined(__linux__)
#include <poll.h>
#include <sys/syscall.h>
#endif

namespace smex::runtime {
namespace {

#if defined(__linux__)
#if !defined(SYS_pidfd_open)
#define SYS_pidfd_open 434
#endif

struct Status {
  char state = 0;  ///< as `ps` prints it
  std::string started;
};

/// Of a process by its pid, or of "self". No state where it cannot be read.
Status status_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  if (!std::getline(file, line)) return {};
  const size_t name_end = line.rfind(')');  // a process's name may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream rest(line.substr(name_end + 1));
  Status status;
  rest >> status.state;
  constexpr int kStartTime = 22;  // of the fields that proc(5) counts; the state is the third
  for (int field = 4; field <= kStartTime; ++field) rest >> status.started;
  return status;
}

std::string link_target(const char* path) {
  std::vector<char> target(256);
  const ssize_t length = readlink(path, target.data(), target.size());
  return length > 0 ? std::string(target.data(), length) : "";
}
#endif

}  // namespace

ProcessId ProcessId::of_this_process() {
  ProcessId id;
  std::vector<char> host(256);
  if (gethostname(host.data(), host.size() - 1) == 0) id.host = host.data();
  id.pid = getpid();
#if defined(__linux__)
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  const std::string space = link_target("/proc/self/ns/pid");
  id.started = status_of("self").started;
  // Without these, or where /proc counts pids as another namespace does, nobody can tell that a pid
  // means the same for both.
  if (!boot.empty() && !space.empty() && !id.started.empty() &&
      status_of(std::to_string(id.pid)).started == id.started) {
    id.machine = boot + " " + space;
  }
#endif
  return id;
}

LocalProcess::LocalProcess(const ProcessId& id) : id_(id) {
#if defined(__linux__)
  descriptor_ = static_cast<int>(syscall(SYS_pidfd_open, id.pid, 0U));
  // Looked at after the descriptor was opened: it is of this process and no later one.
  was_gone_ = !is_there();
#endif
}

LocalProcess::~LocalProcess() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool LocalProcess::is_there() const {
#if defined(__linux__)
  if (kill(id_.pid, 0) != 0 && errno == ESRCH) return false;
  const Status status = status_of(std::to_string(id_.pid));
  if (status.state == 0) return true;  // unreadable, for one where files run out
  return status.started == id_.started && status.state != 'Z' && status.state != 'X';
#else
  return true;
#endif
}

bool LocalProcess::is_gone() const {
#if defined(__linux__)
  if (was_gone_) return true;
  if (descriptor_ >= 0) {
    pollfd entry{descriptor_, POLLIN, 0};
    return poll(&entry, 1, 0) > 0;
  }
  return !is_there();
#else
  return false;
#endif
}

bool LocalProcess::is_stopped() const {
#if defined(__linux__)
  const Status status = status_of(std::to_string(id_.pid));
  return status.started == id_.started && status.state == 'T';
#else
  return false;
#endif
}

}  // namespace smex::runtime
