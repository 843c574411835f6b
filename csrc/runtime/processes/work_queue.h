#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace smex::runtime {

/// Waits for sends or receives in their order, and tells when each is over: torch's Gloo tells only
/// those who wait.
class WorkQueue {
 public:
  WorkQueue();
  /// Joins the thread where nothing is left to wait for. What never ends keeps it for good.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  /// `on_over` runs on the queue's thread with the error's text, empty where there was none.
  using OnOver = std::function<void(const std::string& error)>;
  void push(c10::intrusive_ptr<c10d::Work> work, OnOver on_over);

 private:
  struct Entry {
    c10::intrusive_ptr<c10d::Work> work;
    OnOver on_over;
  };
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Entry> entries;  ///< the first is waited for
    bool closing = false;
  };
  static void run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace smex::runtime
