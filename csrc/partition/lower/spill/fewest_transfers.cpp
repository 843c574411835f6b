#include "partition/lower/spill/fewest_transfers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "partition/lower/spill/bound.h"

namespace smex {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr int kTriesOfChoice = 16;  ///< visits of the search for choices, for each that is kept
constexpr int kFewestStates = 16;
constexpr size_t kAllCandidates = 32;  ///< of so many blocks also the small ones may leave

using Words = std::vector<uint64_t>;

struct WordsHash {
  size_t operator()(const Words& words) const {
    uint64_t hash = 1469598103934665603ULL;
    for (const uint64_t word : words) {
      hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

/// What is on the device before a step; two bits a block.
struct State {
  Words words;
  int64_t moved = 0;  ///< bytes so far
  int64_t held = 0;
  double least = 0;  ///< bytes of any schedule that goes on from here
  int before = -1;   ///< its history before the last step, and what has left at that
  std::vector<int> dropped;
  int history = -1;

  bool is_there(int block) const { return (words[block / 32] >> (block % 32 * 2)) & 1; }
  bool is_dirty(int block) const { return (words[block / 32] >> (block % 32 * 2)) & 2; }
  void set(int block, bool is_there, bool is_dirty) {
    uint64_t& word = words[block / 32];
    word &= ~(uint64_t{3} << (block % 32 * 2));
    word |= static_cast<uint64_t>(is_there + 2 * is_dirty) << (block % 32 * 2);
  }
};

/// How a state came about.
struct History {
  int before = -1;
  std::vector<int> dropped;
};

/// A block that may leave, and by how much all that follows gets dearer at the least.
struct Candidate {
  int block = 0;
  int64_t bytes = 0;
  double dearer = 0;
};

/// Sets of candidates of enough bytes, none of which could stay, the cheapest first.
class Choices {
 public:
  Choices(std::vector<Candidate> candidates, int64_t missing, double allowed, int most)
      : candidates_(std::move(candidates)), allowed_(allowed), most_(most) {
    const auto rate = [](const Candidate& one) {
      return one.dearer / static_cast<double>(std::max<int64_t>(one.bytes, 1));
    };
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [&](const Candidate& a, const Candidate& b) { return rate(a) < rate(b); });
    left_.assign(candidates_.size() + 1, 0);
    for (size_t n = candidates_.size(); n-- > 0;) left_[n] = left_[n + 1] + candidates_[n].bytes;
    visit(0, missing, 0);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (static_cast<int>(found_.size()) > most_) {
      left_out_ = std::min(left_out_, found_[most_].first);
      found_.resize(most_);
    }
  }

  const std::vector<std::pair<double, std::vector<int>>>& found() const { return found_; }
  /// By how much all that follows is dearer at the least with a set that was left out.
  double left_out() const { return left_out_; }

 private:
  void visit(size_t n, int64_t missing, double dearer) {
    if (missing <= 0) {
      if (is_minimal(-missing)) found_.emplace_back(dearer, chosen_);
      return;
    }
    if (left_[n] < missing || dearer + at_least(n, missing) > allowed_) return;
    if (++visits_ > kTriesOfChoice * most_ && !found_.empty()) {
      left_out_ = std::min(left_out_, dearer + at_least(n, missing));
      return;
    }
    chosen_.push_back(candidates_[n].block);
    sizes_.push_back(candidates_[n].bytes);
    visit(n + 1, missing - candidates_[n].bytes, dearer + candidates_[n].dearer);
    chosen_.pop_back();
    sizes_.pop_back();
    visit(n + 1, missing, dearer);
  }

  /// What filling the rest costs where parts of blocks could leave.
  double at_least(size_t n, int64_t missing) const {
    double sum = 0;
    for (; n < candidates_.size() && missing > 0; ++n) {
      const Candidate& one = candidates_[n];
      if (one.bytes >= missing) {
        return sum + one.dearer * static_cast<double>(missing) / static_cast<double>(one.bytes);
      }
      sum += one.dearer;
      missing -= one.bytes;
    }
    return sum;
  }

  bool is_minimal(int64_t too_many) const {
    return std::all_of(sizes_.begin(), sizes_.end(),
                       [&](int64_t bytes) { return bytes == 0 || bytes > too_many; });
  }

  std::vector<Candidate> candidates_;
  const double allowed_;
  const int most_;
  std::vector<int64_t> left_;  ///< bytes of all candidates from one on
  std::vector<int> chosen_;
  std::vector<int64_t> sizes_;  ///< of those
  std::vector<std::pair<double, std::vector<int>>> found_;
  double left_out_ = kNone;
  int visits_ = 0;
};

class Algorithm1 {
 public:
  Algorithm1(const SpillProblem& problem, SpillSchedule known, const SpillLimits& limits)
      : problem_(problem),
        limits_(limits),
        used_(problem.blocks_of_steps()),
        best_(std::move(known)),
        bound_(problem, best_.bytes()),
        next_(problem.blocks.size(), 0) {
    int64_t unit = 0;
    for (const SpillBlock& block : problem.blocks) unit = std::gcd(unit, block.bytes);
    unit_ = std::max<int64_t>(unit, 1);
    slack_ = std::max(1e-6, 1e-10 * static_cast<double>(best_.bytes()));
    count_states();
  }

  SpillSchedule run() {
    std::vector<State> layer(1);
    layer[0].words.assign(problem_.blocks.size() / 32 + 1, 0);
    for (int step = 0; step < problem_.num_steps && !layer.empty(); ++step) {
      layer = advance(layer, step);
    }
    for (const State& state : layer) {
      if (state.moved < best_.bytes()) take(state);
    }
    const auto known = static_cast<double>(best_.bytes());
    const double least = std::max(std::min(known, left_out_), std::min(known, bound_.bytes()));
    const auto units = std::ceil((least - slack_) / static_cast<double>(unit_));
    best_.least = std::min(best_.bytes(), static_cast<int64_t>(units) * unit_);
    return std::move(best_);
  }

 private:
  void count_states() {
    int64_t alive = int64_t{4} * limits_.choices * problem_.num_steps + 1;  // blocks times steps
    for (const SpillBlock& block : problem_.blocks) {
      if (!block.uses.empty()) {
        alive += block.uses.back() - (block.on_host ? 0 : block.uses.front()) + 1;
      }
    }
    most_states_ =
        static_cast<int>(std::clamp<int64_t>(limits_.work / alive, kFewestStates, limits_.states));
  }

  bool is_hopeless(double least) const {
    return least > static_cast<double>(best_.bytes() - unit_) + slack_;
  }

  std::vector<State> advance(const std::vector<State>& layer, int step) {
    std::unordered_map<Words, int, WordsHash> known;
    std::vector<State> found;
    const auto add = [&](State state) {
      const auto [place, is_new] = known.try_emplace(state.words, static_cast<int>(found.size()));
      if (!is_new && found[place->second].moved <= state.moved) return;
      if (is_new) {
        found.push_back(std::move(state));
      } else {
        found[place->second] = std::move(state);
      }
    };
    collect_alive(step);
    for (const State& state : layer) follow(state, step, add);
    for (const int block : used_[step]) ++next_[block];
    keep_promising(found);
    for (State& state : found) {
      state.history = static_cast<int>(histories_.size());
      histories_.push_back({state.before, std::move(state.dropped)});
    }
    return found;
  }

  /// The blocks that may be on the device before a step, or on the host and used later.
  void collect_alive(int step) {
    alive_.clear();
    for (size_t b = 0; b < problem_.blocks.size(); ++b) {
      const SpillBlock& block = problem_.blocks[b];
      const bool is_over = next_[b] >= static_cast<int>(block.uses.size());
      if (!is_over && (block.on_host || block.uses[0] < step))
        alive_.push_back(static_cast<int>(b));
    }
  }

  template <typename Add>
  void follow(const State& state, int step, const Add& add) {
    State entered = state;
    entered.before = state.history;
    entered.dropped.clear();
    std::vector<int> leaving;  // what the step is the last to use
    for (const int b : used_[step]) {
      const SpillBlock& block = problem_.blocks[b];
      const bool is_made = !block.on_host && block.uses.front() == step;
      if (!state.is_there(b)) {
        entered.held += block.bytes;
        entered.moved += is_made && !block.kept ? 0 : block.bytes;
        entered.set(b, true, is_made && !block.kept);
      }
      if (block.uses.back() == step) leaving.push_back(b);
    }
    const int64_t missing = entered.held - problem_.capacity;
    for (const int b : leaving) {
      entered.held -= problem_.blocks[b].bytes;
      entered.set(b, false, false);
    }
    entered.least = static_cast<double>(entered.moved) + to_go(entered, step);
    if (is_hopeless(entered.least)) return;
    if (missing <= 0) {
      add(std::move(entered));
      return;
    }
    const double allowed = static_cast<double>(best_.bytes() - unit_) + slack_ - entered.least;
    const Choices choices(candidates(state, entered, step, missing), missing, allowed,
                          limits_.choices);
    left_out_ = std::min(left_out_, entered.least + choices.left_out());
    for (const auto& [dearer, dropped] : choices.found()) {
      State next = entered;
      for (const int b : dropped) {
        const int64_t bytes = problem_.blocks[b].bytes;
        next.held -= bytes;
        if (state.is_dirty(b)) next.moved += bytes;
        next.set(b, false, false);
      }
      next.least += dearer;
      next.dropped = dropped;
      add(std::move(next));
    }
  }

  /// What may leave before a step, so that it is not there after it.
  std::vector<Candidate> candidates(const State& state, const State& entered, int step,
                                    int64_t missing) {
    std::vector<Candidate> large, all;
    int64_t of_large = 0;
    const int64_t small = problem_.capacity / limits_.small_part;
    for (const int b : alive_) {
      if (!state.is_there(b) || problem_.blocks[b].uses[next_[b]] == step) continue;
      const int64_t bytes = problem_.blocks[b].bytes;
      const double stays = bound_.to_go(b, next_[b], step + 1, true, entered.is_dirty(b));
      const double leaves =
          bound_.on_host(b, next_[b]) + (state.is_dirty(b) ? static_cast<double>(bytes) : 0);
      all.push_back({b, bytes, std::max(0.0, leaves - stays)});
      if (bytes < small) continue;
      large.push_back(all.back());
      of_large += bytes;
    }
    if (of_large < missing || all.size() <= kAllCandidates) return all;
    if (large.size() < all.size()) left_out_ = std::min(left_out_, entered.least);
    return large;
  }

  /// Bytes at the least after a step.
  double to_go(const State& state, int step) const {
    double sum = bound_.rest(step + 1);
    const auto add = [&](int b, int use) {
      if (use == static_cast<int>(problem_.blocks[b].uses.size())) return;
      sum += bound_.to_go(b, use, step + 1, state.is_there(b), state.is_dirty(b));
    };
    for (const int b : alive_) {
      add(b, next_[b] + (problem_.blocks[b].uses[next_[b]] == step ? 1 : 0));
    }
    for (const int b : used_[step]) {
      const SpillBlock& block = problem_.blocks[b];
      if (!block.on_host && block.uses.front() == step) add(b, 1);
    }
    return sum;
  }

  void keep_promising(std::vector<State>& found) {
    if (static_cast<int>(found.size()) <= most_states_) return;
    const auto is_better = [](const State& a, const State& b) {
      return a.least != b.least ? a.least < b.least : a.before < b.before;
    };
    std::nth_element(found.begin(), found.begin() + most_states_, found.end(), is_better);
    left_out_ = std::min(left_out_, found[most_states_].least);
    found.resize(most_states_);
  }

  void take(const State& state) {
    SpillSchedule schedule;
    schedule.dropped.resize(problem_.num_steps);
    int step = problem_.num_steps;
    for (int at = state.history; at >= 0; at = histories_[at].before) {
      schedule.dropped[--step] = histories_[at].dropped;
    }
    count_transfers(problem_, schedule);
    best_ = std::move(schedule);
  }

  const SpillProblem& problem_;
  const SpillLimits& limits_;
  const std::vector<std::vector<int>> used_;
  SpillSchedule best_;
  const TransferBound bound_;
  std::vector<int> next_;  ///< by block the first of its uses that is not past
  std::vector<int> alive_;
  std::vector<History> histories_;
  int64_t unit_ = 1;  ///< of which all bytes are multiples
  double slack_ = 0;  ///< of rounding
  int most_states_ = 0;
  double left_out_ = kNone;  ///< the least that any state costs which was not gone on with
};

}  // namespace

SpillSchedule fewest_transfers(const SpillProblem& problem, const SpillLimits& limits) {
  SpillSchedule best = follow_policy(problem, SpillPolicy::kBelady);
  SpillSchedule other = follow_policy(problem, SpillPolicy::kLru);
  if (other.bytes() < best.bytes()) best = std::move(other);
  return Algorithm1(problem, std::move(best), limits).run();
}

SpillSchedule schedule_transfers(const SpillProblem& problem, SpillPolicy policy) {
  check(problem);
  return policy == SpillPolicy::kDp ? fewest_transfers(problem) : follow_policy(problem, policy);
}

}  // namespace smex
