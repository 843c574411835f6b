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
  uint64_t lane_bytes = 0;
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

std::shared_ptr<Segment> Segment::create(const std::string& path, int rank, int size,
                                         size_t lane_bytes) {
  const uint64_t space = aligned(sizeof(Header)) + size * aligned(sizeof(Lane));
  const uint64_t each = aligned(lane_bytes);
  const size_t bytes = space + (size - 1) * each;
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
  header.lane_bytes = each;
  for (int receiver = 0; receiver < size; ++receiver) {
    new (&segment->lane(receiver)) Lane;
    const int place = receiver < rank ? receiver : receiver - 1;  // none for itself
    segment->rings_.push_back({receiver == rank ? 0 : space + place * each});
  }
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

void Segment::reclaim(Ring& ring) {
  while (ring.used > 0) {
    const Block& oldest = block(ring.begin + ring.tail);
    if (oldest.in_use.load() != 0) return;
    ring.used -= oldest.bytes;
    ring.tail = (ring.tail + oldest.bytes) % header().lane_bytes;
  }
  ring.head = ring.tail = 0;
}

std::optional<uint64_t> Segment::allocate(int receiver, uint64_t bytes) {
  const uint64_t size = kLine + aligned(bytes), all = header().lane_bytes;
  Ring& ring = rings_[receiver];
  reclaim(ring);
  // What is left at the end is a block of its own that is free at once.
  const uint64_t skipped = ring.head + size > all ? all - ring.head : 0;
  if (ring.used + skipped + size > all) return std::nullopt;
  if (skipped > 0) {
    Block& rest = *new (&block(ring.begin + ring.head)) Block;
    rest.bytes = skipped;
    ring.head = 0;
    ring.used += skipped;
  }
  Block& made = *new (&block(ring.begin + ring.head)) Block;
  made.bytes = size;
  made.in_use.store(1, std::memory_order_relaxed);
  const uint64_t offset = ring.begin + ring.head + kLine;
  ring.head = (ring.head + size) % all;
  ring.used += size;
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
