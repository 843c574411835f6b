#include "runtime/processes/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "ir/error.h"

namespace smex::runtime {
namespace {

constexpr uint64_t kLine = 64;  ///< bytes of a cache line, and the alignment of packets
constexpr uint64_t kDepth = 256;
constexpr uint64_t kMagic = 0x736d65785f303031;

uint64_t aligned(uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  throw UserError("shared memory " + path + ": " + what + ": " + std::strerror(error));
}

std::byte* map(const File& file, const std::string& path, size_t bytes) {
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (base == MAP_FAILED) fail(path, "cannot be mapped", errno);
  return static_cast<std::byte*>(base);
}

}  // namespace

struct Segment::Header {
  uint64_t magic = kMagic;
  uint64_t num_receivers = 0;
  uint64_t arena = 0;  ///< where it begins
  uint64_t arena_bytes = 0;
  Doorbell doorbell;
  std::atomic<uint32_t> starving{0};
};

struct Segment::Lane {
  alignas(kLine) std::atomic<uint64_t> noticed{0};
  alignas(kLine) std::atomic<uint64_t> taken{0};
  alignas(kLine) Notice notices[kDepth];
};

/// Lies before each packet.
struct Segment::Block {
  uint64_t bytes = 0;  ///< with this head
  std::atomic<uint32_t> in_use{0};
};

std::shared_ptr<Segment> Segment::create(const std::string& path, int num_receivers,
                                         size_t arena_bytes) {
  const uint64_t arena = aligned(sizeof(Header)) + num_receivers * aligned(sizeof(Lane));
  const size_t bytes = arena + aligned(arena_bytes);
  const File file(path, O_RDWR | O_CREAT | O_EXCL);
  if (file.fd() < 0) fail(path, "cannot be made", errno);
  // Not ftruncate alone: memory that is not there would kill the process when it is written.
  const int error = ::posix_fallocate(file.fd(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    ::unlink(path.c_str());
    fail(path, "there is not enough of it", error);
  }
  std::shared_ptr<Segment> segment(new Segment(map(file, path, bytes), bytes));
  Header& header = *new (segment->base_) Header;
  header.num_receivers = num_receivers;
  header.arena = arena;
  header.arena_bytes = aligned(arena_bytes);
  for (int n = 0; n < num_receivers; ++n) new (&segment->lane(n)) Lane;
  return segment;
}

std::shared_ptr<Segment> Segment::open(const std::string& path) {
  const File file(path, O_RDWR);
  struct stat status{};
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) fail(path, "cannot be opened", errno);
  const auto bytes = static_cast<size_t>(status.st_size);
  std::shared_ptr<Segment> segment(new Segment(map(file, path, bytes), bytes));
  if (bytes < sizeof(Header) || segment->header().magic != kMagic) {
    throw UserError("shared memory " + path + ": not made by this version of the library");
  }
  return segment;
}

Segment::~Segment() { ::munmap(base_, bytes_); }

Doorbell& Segment::doorbell() { return header().doorbell; }

Segment::Lane& Segment::lane(int receiver) {
  std::byte* const lanes = base_ + aligned(sizeof(Header));
  return *reinterpret_cast<Lane*>(lanes + receiver * aligned(sizeof(Lane)));
}

Segment::Block& Segment::block(uint64_t offset) {
  return *reinterpret_cast<Block*>(base_ + offset);
}

void Segment::reclaim() {
  while (used_ > 0) {
    const Block& oldest = block(header().arena + tail_);
    if (oldest.in_use.load() != 0) return;
    used_ -= oldest.bytes;
    tail_ = (tail_ + oldest.bytes) % header().arena_bytes;
  }
  head_ = tail_ = 0;
}

std::optional<uint64_t> Segment::allocate(uint64_t bytes) {
  const uint64_t size = kLine + aligned(bytes), all = header().arena_bytes;
  reclaim();
  const bool wraps = head_ + size > all;
  // What is left at the end is a block of its own that is free at once.
  const uint64_t skipped = wraps ? all - head_ : 0;
  if (used_ + skipped + size > all) return std::nullopt;
  if (skipped > 0) {
    Block& rest = *new (&block(header().arena + head_)) Block;
    rest.bytes = skipped;
    head_ = 0;
    used_ += skipped;
  }
  Block& made = *new (&block(header().arena + head_)) Block;
  made.bytes = size;
  made.in_use.store(1, std::memory_order_relaxed);
  const uint64_t offset = header().arena + head_ + kLine;
  head_ = (head_ + size) % all;
  used_ += size;
  return offset;
}

bool Segment::can_notify(int receiver) {
  const Lane& to = lane(receiver);
  return to.noticed.load(std::memory_order_relaxed) - to.taken.load() < kDepth;
}

void Segment::notify(int receiver, const Notice& notice) {
  Lane& to = lane(receiver);
  const uint64_t number = to.noticed.load(std::memory_order_relaxed);
  to.notices[number % kDepth] = notice;
  to.noticed.store(number + 1, std::memory_order_release);
}

void Segment::await_space(bool on) { header().starving.store(on ? 1 : 0); }

std::optional<Notice> Segment::take(int receiver) {
  Lane& from = lane(receiver);
  const uint64_t number = from.taken.load(std::memory_order_relaxed);
  if (number == from.noticed.load(std::memory_order_acquire)) return std::nullopt;
  const Notice notice = from.notices[number % kDepth];
  from.taken.store(number + 1);
  if (header().starving.load() != 0) doorbell().ring();
  return notice;
}

void Segment::give_back(uint64_t offset) {
  block(offset - kLine).in_use.store(0);
  if (header().starving.load() != 0) doorbell().ring();
}

}  // namespace smex::runtime
