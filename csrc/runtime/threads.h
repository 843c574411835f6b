#pragma once

namespace smex::runtime {

/// Intra-op threads of the calling thread alone: what ATen's parallel loops and MKL use when called
/// from it. `at::set_num_threads` would also change the default of every thread born later.
class ScopedIntraOpThreads {
 public:
  explicit ScopedIntraOpThreads(int num_threads);
  ~ScopedIntraOpThreads();
  ScopedIntraOpThreads(const ScopedIntraOpThreads&) = delete;
  ScopedIntraOpThreads& operator=(const ScopedIntraOpThreads&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

}  // namespace smex::runtime
