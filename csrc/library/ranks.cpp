#include "smex/ranks.h"

#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "ir/error.h"
#include "library/ranks_impl.h"

namespace smex {

using runtime::Communicator;
using runtime::Segment;
using runtime::Watcher;
using Store = c10::intrusive_ptr<c10d::Store>;

namespace {

constexpr const char* kFromEnvironment = "Ranks::from_environment: ";
/// Of shared memory from one process to another: the first that there is.
constexpr std::array<size_t, 2> kLanes{4 << 20, 9 << 17};

std::string in_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') {
    throw UserError(c10::str(kFromEnvironment, name,
                             " is not set; start the program by torchrun --no-python, or set RANK, "
                             "WORLD_SIZE, MASTER_ADDR and MASTER_PORT"));
  }
  return text;
}

int number_in_environment(const char* name) {
  const std::string text = in_environment(name);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) {
    throw UserError(
        c10::str(kFromEnvironment, "expected a number as ", name, ", found \"", text, "\""));
  }
  return number;
}

/// What processes have in common that may share memory: the machine, and who sees its network.
std::string host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code ignored;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", ignored);
  return c10::str(name.data(), " ", boot, " ", network.string());
}

/// What each rank tells the others under a name.
std::vector<std::string> told(c10d::Store& store, const std::string& name, int rank, int size,
                              const std::string& text, Watcher& watcher) {
  constexpr std::chrono::milliseconds kGlance{2};
  const auto key_of = [&](int r) { return c10::str(name, "/", r); };
  std::vector<std::string> found;
  try {
    store.set(key_of(rank), "." + text);  // some stores take no empty value
    for (int r = 0; r < size; ++r) {
      while (!store.check({key_of(r)})) {
        if (auto failure = watcher.failure_awaiting({r})) throw runtime::RankFailure(*failure);
        std::this_thread::sleep_for(kGlance);
      }
      found.push_back(store.get_to_str(key_of(r)).substr(1));
    }
  } catch (const c10::Error& error) {
    throw runtime::RankFailure(watcher.settle({rank, "", error.what_without_backtrace()}));
  }
  return found;
}

/// This process's memory for others, at a path that nobody else has; null where there is none.
std::pair<std::string, std::shared_ptr<Segment>> make_segment(int rank, int size) {
  const char* const wanted = std::getenv("SMEX_SHARED_MEMORY");
  if (wanted != nullptr && std::strcmp(wanted, "0") == 0) return {};
  std::error_code ignored;
  const std::filesystem::path shared("/dev/shm");
  const auto folder = std::filesystem::is_directory(shared, ignored)
                          ? shared
                          : std::filesystem::temp_directory_path(ignored);
  std::random_device entropy;
  const auto path = folder / c10::str("smex-", ::getpid(), "-", entropy(), "-", rank);
  for (const size_t bytes : kLanes) {
    try {
      return {path.string(), Segment::create(path.string(), rank, size, bytes)};
    } catch (const UserError&) {  // there is less memory
    }
  }
  return {};
}

/// Fills in `hosts` and `segments`.
void share_memory(c10d::Store& store, Watcher& watcher, int size,
                  runtime::CommunicatorOptions& options) {
  const int rank = options.rank;
  const auto [path, own] = make_segment(rank, size);
  const auto rank_told = [&](const char* name, const std::string& text) {
    return told(store, name, rank, size, text, watcher);
  };
  const std::string here = own ? host() : "";
  const std::vector<std::string> hosts = rank_told("host", here), paths = rank_told("memory", path);
  std::map<std::string, int> numbers;
  std::string problem;
  options.segments.resize(size);
  for (int r = 0; r < size; ++r) {
    const int next = static_cast<int>(numbers.size());
    options.hosts.push_back(hosts[r].empty() ? -1
                                             : numbers.try_emplace(hosts[r], next).first->second);
    if (!own || hosts[r] != here) continue;
    try {
      options.segments[r] = r == rank ? own : Segment::open(paths[r]);
    } catch (const UserError& error) {
      problem = error.what();
    }
  }
  const std::vector<std::string> problems = rank_told("mapped", problem);  // all have, or have not
  std::error_code ignored;
  if (own) std::filesystem::remove(path, ignored);
  const auto is_some = [](const std::string& text) { return !text.empty(); };
  if (std::any_of(problems.begin(), problems.end(), is_some)) {
    options.hosts.assign(size, -1);
    options.segments.clear();
  }
}

}  // namespace

Ranks::Impl::~Impl() {
  if (!watcher) return;
  constexpr std::chrono::seconds kLongest{30};
  constexpr std::chrono::milliseconds kGlance{5};
  const auto end = std::chrono::steady_clock::now() + kLongest;
  const auto key_of = [](int r) { return c10::str("left/", r); };
  try {
    if (watcher->rank() != 0) {
      watcher->leave();
      store->set(key_of(watcher->rank()), ".");
      return;
    }
    for (int r = 1; r < watcher->size(); ++r) {
      while (!watcher->failure() && std::chrono::steady_clock::now() < end &&
             !store->check({key_of(r)})) {
        std::this_thread::sleep_for(kGlance);
      }
    }
  } catch (const std::exception&) {  // the store is gone
  }
}

Ranks Ranks::from_environment(Seconds timeout) {
  const int rank = number_in_environment("RANK"), size = number_in_environment("WORLD_SIZE");
  const std::string address = in_environment("MASTER_ADDR");
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(number_in_environment("MASTER_PORT"));
  options.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  options.multiTenant = true;
  const char* const by_agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool agent_has_it = by_agent != nullptr && std::strcmp(by_agent, "True") == 0;
  options.isServer = rank == 0 && !agent_has_it;
  options.numWorkers = agent_has_it ? std::nullopt : std::optional<size_t>(size);
  const char* const attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const std::string prefix = c10::str("smex/ranks/", attempt == nullptr ? "0" : attempt);
  Store store;
  try {
    store = c10::make_intrusive<c10d::TCPStore>(address, options);
  } catch (const c10::Error& error) {
    throw std::runtime_error(c10::str(kFromEnvironment, "not all of ", size, " ranks have met at ",
                                      address, ":", options.port, " within ", timeout.count(),
                                      " s: ", error.what_without_backtrace()));
  }
  return Ranks(c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(store)), rank, size, {},
               timeout);
}

Ranks::Ranks(Store store, int rank, int size, c10::intrusive_ptr<c10d::ProcessGroup> group,
             Seconds timeout)
    : impl_(std::make_shared<Impl>()) {
  const auto part = [&](const char* name) {
    return c10::make_intrusive<c10d::PrefixStore>(name, store->clone());
  };
  impl_->given = store;
  impl_->store = part("goodbyes");
  runtime::WatcherOptions watched;
  watched.arrival = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  impl_->watcher = std::make_shared<Watcher>(part("watch"), rank, size, watched);
  runtime::CommunicatorOptions options;
  options.rank = rank;
  options.group = std::move(group);
  options.store = part("passes");
  options.watcher = impl_->watcher;
  options.recorder = std::make_shared<runtime::Recorder>();
  share_memory(*store, *impl_->watcher, size, options);
  for (int r = 0; r < size; ++r) {
    if (options.group || size == 1 ||
        (options.hosts[r] >= 0 && options.hosts[r] == options.hosts[0]))
      continue;
    throw UserError(c10::str("Ranks: rank ", r,
                             " shares no memory with rank 0, on another host or "
                             "without room in /dev/shm; give the ranks a group of torch's to speak "
                             "through"));
  }
  impl_->communicator = Communicator::create(std::move(options));
}

int Ranks::rank() const { return impl_->communicator->rank(); }
int Ranks::size() const { return impl_->communicator->size(); }

}  // namespace smex
