#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "partition/lower/exchange.h"
#include "partition/lower/orders.h"
#include "partition/lower/program.h"

namespace smex::test {

/// Runs lists without data, where a fetch that is not due stays open and the workers go on in an
/// order drawn at random; who waits goes on with what is open. With `messages` processes receive in
/// their order, whatever is there before.
class Runner {
 public:
  Runner(const Program& program, std::mt19937& random,
         std::array<std::vector<Message>, 2> messages = {}, std::vector<int> ranks = {})
      : program_(program),
        random_(random),
        messages_(std::move(messages)),
        ranks_(std::move(ranks)) {
    for (const WorkerProgram& worker : program.workers) {
      written_.emplace_back(worker.num_slots, false);
    }
    for (const Binding& binding : program.inputs) {
      for (size_t w = 0; w < binding.slots.size(); ++w) {
        if (binding.slots[w] != kNoSlot) written_[w][binding.slots[w]] = true;
      }
    }
  }

  void run() {
    for (const bool backward : {false, true}) {
      list_messages(backward);
      run_lists(backward);
    }
  }

 private:
  struct Sent {
    Message message;
    std::set<std::pair<int, Slot>> sources;
    bool has_come = false;
  };

  void list_messages(bool backward) {
    sent_.clear();
    if (ranks_.empty()) return;
    const auto list = backward ? &WorkerProgram::backward : &WorkerProgram::forward;
    const auto all = list_orders(program_, ranks_, list);
    for (const Message& message : messages_[backward]) {
      Sent& sent = sent_.emplace_back(Sent{message, {}, false});
      for (const Parcel& parcel : all.at(message.relayout).by_pair.at({message.from, message.to})) {
        sent.sources.emplace(parcel.worker, parcel.slot);
      }
    }
  }

  /// Lets messages come, by receiver in their order.
  bool receive() {
    bool has_moved = false;
    std::set<int> waiting;
    for (Sent& sent : sent_) {
      if (sent.has_come || waiting.count(sent.message.to)) continue;
      sent.has_come =
          std::all_of(sent.sources.begin(), sent.sources.end(),
                      [&](const auto& source) { return written_[source.first][source.second]; });
      if (!sent.has_come) waiting.insert(sent.message.to);
      has_moved = has_moved || sent.has_come;
    }
    return has_moved;
  }

  void run_lists(bool backward) {
    std::vector<int> next(program_.num_workers, 0);
    std::vector<std::vector<const FetchInstr*>> open(program_.num_workers);
    std::vector<int> order;
    for (int w = 0; w < program_.num_workers; ++w) order.push_back(w);
    for (bool is_moving = true; is_moving;) {
      is_moving = receive();
      std::shuffle(order.begin(), order.end(), random_);
      for (const int w : order) {
        is_moving = finish(w, open[w]) || is_moving;
        const auto& instrs = program_.workers[w].list(backward);
        const bool waits = std::any_of(open[w].begin(), open[w].end(),
                                       [&](const auto* fetch) { return fetch->due <= next[w]; });
        if (waits || next[w] == static_cast<int>(instrs.size())) continue;
        if (!step(w, instrs[next[w]], open[w])) continue;
        ++next[w];
        is_moving = true;
      }
    }
    for (int w = 0; w < program_.num_workers; ++w) {
      EXPECT_EQ(next[w], static_cast<int>(program_.workers[w].list(backward).size()));
      EXPECT_TRUE(open[w].empty()) << "worker " << w;
    }
  }

  bool is_there(const FetchInstr& fetch, int worker) const {
    return std::all_of(fetch.parts.begin(), fetch.parts.end(), [&](const CopyPart& part) {
      if (ranks_.empty() || ranks_[part.worker] == ranks_[worker])
        return static_cast<bool>(written_[part.worker][part.slot]);
      const Message message{fetch.relayout, ranks_[part.worker], ranks_[worker]};
      return std::any_of(sent_.begin(), sent_.end(), [&](const Sent& sent) {
        return sent.has_come && sent.message == message;
      });
    });
  }

  bool finish(int worker, std::vector<const FetchInstr*>& open) {
    const auto gone = std::stable_partition(
        open.begin(), open.end(), [&](const auto* fetch) { return !is_there(*fetch, worker); });
    const bool has_moved = gone != open.end();
    for (auto fetch = gone; fetch != open.end(); ++fetch) written_[worker][(*fetch)->dest] = true;
    open.erase(gone, open.end());
    return has_moved;
  }

  bool step(int worker, const Instr& instr, std::vector<const FetchInstr*>& open) {
    if (const auto* fetch = std::get_if<FetchInstr>(&instr)) {
      if (fetch->due >= 0) {
        open.push_back(fetch);
        return true;
      }
      if (!is_there(*fetch, worker)) return false;
      written_[worker][fetch->dest] = true;
    } else if (const auto* compute = std::get_if<ComputeInstr>(&instr)) {
      for (const ValueId slot : tensor_operands(compute->args)) {
        EXPECT_TRUE(written_[worker][slot]) << "slot " << slot << " is used before it is there";
      }
      for (const Slot slot : compute->outputs) {
        if (slot != kNoSlot) written_[worker][slot] = true;
      }
    }
    return true;
  }

  const Program& program_;
  std::mt19937& random_;
  const std::array<std::vector<Message>, 2> messages_;
  const std::vector<int> ranks_;            ///< by worker its process; empty: all are of one
  std::vector<Sent> sent_;                  ///< while a list runs
  std::vector<std::vector<bool>> written_;  ///< by worker and slot
};

}  // namespace smex::test
