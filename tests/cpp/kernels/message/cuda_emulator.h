// Runs CUDA kernels as plain C++, to test their logic without a GPU. Include before a .cuh file.
//
// Each thread of a block is a fibre; a fibre gives way at a barrier or shuffle until the others
// have come. Blocks run one after the other. A barrier or shuffle that some thread misses is an
// error, as is a wide load from an address that is not a multiple of its size. What only hardware
// shows stays untested: races between threads, memory order, limits on resources.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cuda_emulator {

struct Dim {
  unsigned x = 0;
};
struct alignas(16) Word16 {
  unsigned x, y, z, w;
};
struct alignas(8) Word8 {
  unsigned x, y;
};

class Block {
 public:
  static constexpr size_t kStackBytes = 96 << 10;
  static constexpr unsigned kWarp = 32;

  /// The block that runs at present.
  static Block*& current() {
    static Block* block = nullptr;
    return block;
  }

  explicit Block(int threads) : fibres_(threads), size_{static_cast<unsigned>(threads)} {
    for (Fibre& fibre : fibres_) fibre.stack.reset(new char[kStackBytes]);
  }

  void run(unsigned index, unsigned blocks, const std::function<void()>& kernel) {
    current() = this;
    kernel_ = &kernel;
    index_ = {index};
    grid_ = {blocks};
    arrived_ = 0;
    for (Fibre& fibre : fibres_) start(fibre);
    unsigned alive = size_.x;
    while (alive > 0) {
      alive = 0;
      moved_ = false;
      for (unsigned t = 0; t < size_.x; ++t) {
        if (fibres_[t].is_done) continue;
        thread_ = {t};
        swapcontext(&scheduler_, &fibres_[t].context);
        alive += !fibres_[t].is_done;
      }
      if (!moved_) throw std::runtime_error("threads wait for one that will not come");
    }
    current() = nullptr;
    if (!error_.empty()) throw std::runtime_error(error_);
  }

  void barrier() {
    const uint64_t mine = generation_;
    if (++arrived_ == size_.x) {
      arrived_ = 0;
      ++generation_;
    }
    moved_ = true;
    while (generation_ == mine) give_way();
  }

  template <typename C>
  C shuffle(unsigned mask, C value, unsigned lane, unsigned width) {
    static_assert(sizeof(C) <= sizeof(uint64_t));
    const unsigned first = thread_.x / kWarp * kWarp, own = thread_.x % kWarp;
    const unsigned from = (own & ~(width - 1)) | (lane & (width - 1));
    if (!(mask >> own & 1) || !(mask >> from & 1)) fail("a lane outside its mask");
    Fibre& me = fibres_[thread_.x];
    std::memcpy(&me.posted[me.shuffles % 2], &value, sizeof(value));
    const uint64_t turn = me.shuffles++;
    moved_ = true;
    for (unsigned other = 0; other < kWarp; ++other) {
      if (!(mask >> other & 1)) continue;
      if (first + other >= size_.x) fail("a lane that does not exist");
      while (fibres_[first + other].shuffles <= turn) {
        if (fibres_[first + other].is_done) fail("a lane that has left");
        give_way();
      }
    }
    C result;
    std::memcpy(&result, &fibres_[first + from].posted[turn % 2], sizeof(result));
    return result;
  }

  void fail(const std::string& what) {
    if (error_.empty()) error_ = what;
    fibres_[thread_.x].is_done = true;
    swapcontext(&fibres_[thread_.x].context, &scheduler_);
  }

  const Dim& thread() const { return thread_; }
  const Dim& index() const { return index_; }
  const Dim& size() const { return size_; }
  const Dim& grid() const { return grid_; }

 private:
  struct Fibre {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool is_done = false;
    uint64_t shuffles = 0;
    uint64_t posted[2] = {};
  };

  static void enter() {
    Block& block = *current();
    (*block.kernel_)();
    block.fibres_[block.thread_.x].is_done = true;
    block.moved_ = true;
    // Returning goes to uc_link, the scheduler.
  }

  void start(Fibre& fibre) {
    fibre.is_done = false;
    fibre.shuffles = 0;
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.get();
    fibre.context.uc_stack.ss_size = kStackBytes;
    fibre.context.uc_link = &scheduler_;
    makecontext(&fibre.context, &Block::enter, 0);
  }

  void give_way() {
    const unsigned me = thread_.x;
    swapcontext(&fibres_[me].context, &scheduler_);
  }

  std::vector<Fibre> fibres_;
  Dim size_, index_, grid_, thread_;
  ucontext_t scheduler_;
  const std::function<void()>* kernel_ = nullptr;
  unsigned arrived_ = 0;
  uint64_t generation_ = 0;
  bool moved_ = false;
  std::string error_;
};

template <typename Kernel>
void run(unsigned blocks, int threads, const Kernel& kernel) {
  Block block(threads);
  for (unsigned b = 0; b < blocks; ++b) block.run(b, blocks, kernel);
}

}  // namespace cuda_emulator

// NOLINTBEGIN: CUDA's own names
using uint4 = cuda_emulator::Word16;
using uint2 = cuda_emulator::Word8;

#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define threadIdx (cuda_emulator::Block::current()->thread())
#define blockIdx (cuda_emulator::Block::current()->index())
#define blockDim (cuda_emulator::Block::current()->size())
#define gridDim (cuda_emulator::Block::current()->grid())

inline void __syncthreads() { cuda_emulator::Block::current()->barrier(); }

template <typename Word>
Word __ldg(const Word* from) {
  if (reinterpret_cast<uintptr_t>(from) % sizeof(Word) != 0)
    cuda_emulator::Block::current()->fail("a wide load from an address between its multiples");
  return *from;
}

template <typename C>
C __shfl_xor_sync(unsigned mask, C value, int distance, int width) {
  auto* const block = cuda_emulator::Block::current();
  const unsigned own = block->thread().x % cuda_emulator::Block::kWarp;
  return block->shuffle(mask, value, own ^ static_cast<unsigned>(distance),
                        static_cast<unsigned>(width));
}

template <typename C>
C __shfl_sync(unsigned mask, C value, int lane, int width) {
  return cuda_emulator::Block::current()->shuffle(mask, value, static_cast<unsigned>(lane),
                                                  static_cast<unsigned>(width));
}
// NOLINTEND
