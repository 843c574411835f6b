#include "partition/simulate/transfers.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "partition/lower/orders.h"

namespace smex {
namespace {

/// A part that is sent, by its message.
struct OfMessage {
  uint64_t key = 0;  ///< ascending by relayout, sender and receiver
  const SentPart* remote = nullptr;
  int64_t elements = 0;
};

std::vector<OfMessage> by_message(const std::vector<SentPart>& parts,
                                  const std::vector<int>& ranks) {
  const auto processes = static_cast<uint64_t>(ranks.size());
  std::vector<OfMessage> sent;
  sent.reserve(parts.size());
  for (const SentPart& remote : parts) {
    const int64_t elements = remote.part->source.numel();
    if (elements == 0) continue;
    const auto relayout = static_cast<uint64_t>(remote.fetch->relayout);
    const auto from = static_cast<uint64_t>(ranks[remote.part->worker]);
    const auto to = static_cast<uint64_t>(ranks[remote.worker]);
    sent.push_back({(relayout * processes + from) * processes + to, &remote, elements});
  }
  std::stable_sort(sent.begin(), sent.end(),
                   [](const OfMessage& a, const OfMessage& b) { return a.key < b.key; });
  return sent;
}

/// The routes between processes, each looked up once.
class Routes {
 public:
  Routes(const Machine& machine, const std::vector<int>& ranks)
      : ports_(ranks.size() * ranks.size()), first_worker_(ranks.size(), -1) {
    for (size_t w = ranks.size(); w-- > 0;) first_worker_[ranks[w]] = static_cast<int>(w);
    if (machine.unlike) nodes_ = machine.unlike->nodes;
    if (!nodes_.empty()) num_nodes_ = 1 + *std::max_element(nodes_.begin(), nodes_.end());
  }

  int first_worker(int process) const { return first_worker_[process]; }

  const OccupiedPorts& ports(int to, int from) {
    const size_t processes = first_worker_.size();
    std::optional<OccupiedPorts>& known = ports_[to * processes + from];
    if (!known) known = find_ports(to, from);
    return *known;
  }

 private:
  OccupiedPorts find_ports(int to, int from) const {
    OccupiedPorts ports;
    ports.add(to);
    if (nodes_.empty()) return ports;
    const int there = nodes_.at(first_worker_[to]), here = nodes_.at(first_worker_[from]);
    if (there == here) return ports;
    const int first = static_cast<int>(first_worker_.size());
    ports.add(first + there);
    ports.add(first + num_nodes_ + here);
    return ports;
  }

  std::vector<std::optional<OccupiedPorts>> ports_;  ///< by receiver and sender
  std::vector<int> first_worker_;                    ///< by process
  std::vector<int> nodes_;                           ///< by worker; empty: they share no ports
  int num_nodes_ = 0;
};

bool is_same(const CopyPart& a, const CopyPart& b) {
  return a.worker == b.worker && a.slot == b.slot && a.source == b.source;
}

}  // namespace

Transfers::Transfers(const Program& program, const Mesh& mesh, const Machine& machine,
                     const std::vector<int>& ranks, bool backward) {
  const std::vector<SentPart> parts = list_sent_parts(
      program, ranks, backward ? &WorkerProgram::backward : &WorkerProgram::forward);
  const std::vector<OfMessage> sent = by_message(parts, ranks);
  Routes routes(machine, ranks);
  // What is shown must not move.
  sources_.reserve(sent.size());
  readers_.reserve(sent.size());
  std::vector<const CopyPart*> boxes;  // of a message, each once
  for (auto first = sent.begin(); first != sent.end();) {
    const auto last = std::find_if(first, sent.end(),
                                   [&](const OfMessage& one) { return one.key != first->key; });
    const SentPart& one = *first->remote;
    Transfer transfer;
    transfer.message = {one.fetch->relayout, ranks[one.part->worker], ranks[one.worker]};
    transfer.ports = routes.ports(transfer.message.to, transfer.message.from);
    const int receiver = routes.first_worker(transfer.message.to);
    const size_t sources = sources_.size(), readers = readers_.size();
    boxes.clear();
    for (; first != last; ++first) {
      const OfMessage& sent_part = *first;
      const SentPart& remote = *sent_part.remote;
      const CopyPart& part = *remote.part;
      const std::pair<int, int> reader{remote.worker, remote.position};
      if (readers_.size() == readers || readers_.back() != reader) readers_.push_back(reader);
      const bool is_known = std::any_of(boxes.begin(), boxes.end(),
                                        [&](const CopyPart* box) { return is_same(*box, part); });
      if (is_known) continue;
      boxes.push_back(&part);
      const Link& link = machine.link(mesh, receiver, part.worker);
      const int itemsize = program.workers[remote.worker].slot_itemsizes.at(remote.fetch->dest);
      const auto bytes = static_cast<double>(sent_part.elements * itemsize);
      const double seconds = bytes / link.bandwidth;
      transfer.bytes += bytes;
      transfer.seconds += seconds;
      transfer.charged += (1 - link.overlap) * seconds;
      transfer.latency = std::max(transfer.latency, link.latency);
      sources_.emplace_back(part.worker, part.slot);
    }
    const auto begin = sources_.begin() + static_cast<std::ptrdiff_t>(sources);
    std::sort(begin, sources_.end());
    sources_.erase(std::unique(begin, sources_.end()), sources_.end());
    transfer.sources = {sources_.data() + sources, sources_.size() - sources};
    transfer.readers = {readers_.data() + readers, readers_.size() - readers};
    all_.push_back(transfer);
  }
}

}  // namespace smex
