#include "runtime/processes/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "ir/error.h"

namespace smex::runtime {
namespace {

uint64_t pack(uint32_t high, uint32_t low) { return uint64_t{high} << 32U | low; }
int32_t high(uint64_t packed) { return static_cast<int32_t>(packed >> 32U); }
int32_t low(uint64_t packed) { return static_cast<int32_t>(packed & 0xffffffffU); }

int64_t nanoseconds(Recorder::Clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

/// As a string of JSON. Bytes that are no characters (of an error's text) are passed on.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(c));
      result += code.data();
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string number_or_null(int64_t number) { return number < 0 ? "null" : std::to_string(number); }

/// Seconds since 1970 with microseconds.
std::string unix_time(int64_t steady_ns, int64_t unix_minus_steady_ns) {
  if (steady_ns == 0) return "null";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6f",
                static_cast<double>(steady_ns + unix_minus_steady_ns) * 1e-9);
  return text.data();
}

constexpr std::array kPhases{"forward", "backward", "other"};

}  // namespace

Recorder::Recorder() : slots_(std::make_unique<std::array<Slot, kEntries>>()) {}

int32_t Recorder::text(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = numbers_.try_emplace(text, static_cast<int32_t>(texts_.size()));
  if (is_new) texts_.push_back(text);
  return found->second;
}

uint64_t Recorder::begin(const Entry& entry, Clock::time_point time) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const uint64_t ticket = next_.fetch_add(1, kRelaxed);
  Slot& slot = (*slots_)[ticket % kEntries];
  slot.ticket.store(0, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.kind_phase_worker.store(
      pack(static_cast<uint32_t>(entry.kind) << 8U | static_cast<uint32_t>(entry.phase),
           static_cast<uint32_t>(entry.worker)),
      kRelaxed);
  slot.number_text.store(
      pack(static_cast<uint32_t>(entry.number), static_cast<uint32_t>(entry.text)), kRelaxed);
  slot.peer.store(pack(0, static_cast<uint32_t>(entry.peer)), kRelaxed);
  slot.run.store(entry.run, kRelaxed);
  slot.bytes.store(entry.bytes, kRelaxed);
  slot.begin.store(nanoseconds(time), kRelaxed);
  slot.end.store(0, kRelaxed);
  slot.ticket.store(ticket, std::memory_order_release);
  return ticket;
}

void Recorder::end(uint64_t ticket, Clock::time_point time) {
  Slot& slot = (*slots_)[ticket % kEntries];
  if (slot.ticket.load(std::memory_order_relaxed) != ticket) return;
  slot.end.store(nanoseconds(time), std::memory_order_relaxed);
}

std::string Recorder::dump(const std::string& folder, int rank, int size,
                           const std::optional<Failure>& failure) const {
  namespace fs = std::filesystem;
  const int64_t now = nanoseconds(Clock::now());
  const int64_t offset = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count() -
                         now;
  std::vector<std::pair<uint64_t, std::string>> lines;
  {
    const std::lock_guard lock(mutex_);
    for (const Slot& slot : *slots_) {
      const uint64_t ticket = slot.ticket.load(std::memory_order_acquire);
      if (ticket == 0) continue;
      const uint64_t kind_phase_worker = slot.kind_phase_worker.load(std::memory_order_relaxed);
      const uint64_t number_text = slot.number_text.load(std::memory_order_relaxed);
      const int32_t peer = low(slot.peer.load(std::memory_order_relaxed));
      const int64_t run = slot.run.load(std::memory_order_relaxed);
      const int64_t bytes = slot.bytes.load(std::memory_order_relaxed);
      const int64_t begin = slot.begin.load(std::memory_order_relaxed);
      const int64_t end = slot.end.load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (slot.ticket.load(std::memory_order_relaxed) != ticket) continue;
      const auto kind = static_cast<Kind>(high(kind_phase_worker) >> 8U);
      const auto phase = static_cast<size_t>(high(kind_phase_worker) & 0xff);
      lines.emplace_back(
          ticket,
          "{\"sequence\": " + std::to_string(ticket) +
              ", \"kind\": " + (kind == Kind::kExchange ? "\"exchange\"" : "\"instruction\"") +
              ", \"run\": " + std::to_string(run) + ", \"phase\": " + quoted(kPhases.at(phase)) +
              ", \"worker\": " + std::to_string(low(kind_phase_worker)) +
              ", \"number\": " + std::to_string(high(number_text)) +
              ", \"text\": " + quoted(texts_.at(static_cast<size_t>(low(number_text)))) +
              ", \"peer\": " + number_or_null(peer) + ", \"bytes\": " + std::to_string(bytes) +
              ", \"begin\": " + unix_time(begin, offset) + ", \"end\": " + unix_time(end, offset) +
              "}");
    }
  }
  std::sort(lines.begin(), lines.end());

  std::error_code error;
  fs::create_directories(folder, error);
  const fs::path path = fs::path(folder) / ("rank-" + std::to_string(rank) + ".json");
  const fs::path part = fs::path(path).concat("." + std::to_string(getpid()) + ".part");
  std::ofstream file(part, std::ios::binary);
  file << "{\"version\": 1, \"rank\": " << rank << ", \"size\": " << size
       << ", \"pid\": " << getpid() << ", \"time\": " << unix_time(now, offset);
  file << ",\n \"failure\": ";
  if (failure) {
    file << "{\"kind\": " << quoted(name(failure->kind))
         << ", \"rank\": " << number_or_null(failure->rank)
         << ", \"where\": " << quoted(failure->where) << ", \"text\": " << quoted(failure->text)
         << ", \"message\": " << quoted(failure->message()) << "}";
  } else {
    file << "null";
  }
  file << ",\n \"entries\": [";
  for (size_t i = 0; i < lines.size(); ++i) file << (i > 0 ? ",\n  " : "\n  ") << lines[i].second;
  file << "]}\n";
  file.close();
  if (file) fs::rename(part, path, error);
  if (!file || error) {
    std::error_code none;
    fs::remove(part, none);
    throw UserError("Recorder: \"" + path.string() + "\" cannot be written" +
                    (error ? " (" + error.message() + ")" : ""));
  }
  return path.string();
}

}  // namespace smex::runtime
