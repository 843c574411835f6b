#include "partition/lower/exchange.h"

#include <algorithm>
#include <complex>
#include <map>
#include <type_traits>

#include "ir/error.h"
#include "partition/lower/overlap.h"

namespace smex {
namespace {

using Pair = std::pair<int, int>;  ///< sender and receiver

/// What one process is to send another for one relayout; each box once.
class Order {
 public:
  void add(const CopyPart& part) {
    const Region box{part.source};
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const Parcel& parcel) {
      return parcel.worker == part.worker && parcel.slot == part.slot && parcel.box == box;
    });
    if (found == known_.end() && !box.empty()) known_.push_back({part.worker, part.slot, box});
  }

  /// The boxes in packets of at most so many bytes.
  std::vector<Packet> packets(int relayout, Pair pair, int itemsize, int64_t packet_bytes) const {
    std::vector<Packet> found;
    for (const Parcel& parcel : known_) {
      for (Region& piece : pieces_of(parcel.box, itemsize, packet_bytes)) {
        const int64_t bytes = piece.numel() * itemsize;
        if (found.empty() || found.back().bytes + bytes > packet_bytes) {
          found.push_back({relayout, pair.first, pair.second, 0, {}});
        }
        Packet& packet = found.back();
        packet.parcels.push_back({parcel.worker, parcel.slot, std::move(piece), packet.bytes});
        packet.bytes += bytes;
      }
    }
    return found;
  }

 private:
  std::vector<Parcel> known_;
};

struct Relayout {
  ValueId value = kNoValue;
  std::string kind;
  int itemsize = 1;
  std::map<Pair, Order> orders;
};

std::vector<Exchange> list_of_phase(const Program& program, const std::vector<int>& ranks,
                                    int64_t packet_bytes,
                                    std::vector<Instr> WorkerProgram::* phase) {
  std::map<int, Relayout> relayouts;
  for (int w = 0; w < program.num_workers; ++w) {
    int last = -1;
    for (const Instr& instr : program.workers[w].*phase) {
      const auto* const fetch = std::get_if<FetchInstr>(&instr);
      if (!fetch) continue;
      for (const CopyPart& part : fetch->parts) {
        if (ranks[part.worker] == ranks[w]) continue;
        if (fetch->relayout < last) {
          throw InternalError(fetch->kind + " of value " + std::to_string(fetch->value) +
                              " on worker " + std::to_string(w) + " is of relayout " +
                              std::to_string(fetch->relayout) + ", after one of relayout " +
                              std::to_string(last));
        }
        last = fetch->relayout;
        if (last < 0) {
          throw InternalError(fetch->kind + " of value " + std::to_string(fetch->value) +
                              " on worker " + std::to_string(w) +
                              " reads tiles of other processes, but belongs to no relayout");
        }
        Relayout& relayout = relayouts[last];
        relayout.value = fetch->value;
        relayout.kind = fetch->kind;
        relayout.itemsize = program.workers[w].slot_itemsizes.at(fetch->dest);
        relayout.orders[{ranks[part.worker], ranks[w]}].add(part);
      }
    }
  }
  std::vector<Exchange> exchanges;
  for (const int number : relayout_order(program, phase == &WorkerProgram::backward ? 1 : 0)) {
    const auto moved = relayouts.find(number);
    if (moved == relayouts.end()) continue;  // within a process
    const Relayout& relayout = moved->second;
    std::vector<Exchange> rounds;
    for (const auto& [pair, order] : relayout.orders) {
      std::vector<Packet> packets = order.packets(number, pair, relayout.itemsize, packet_bytes);
      for (size_t round = 0; round < packets.size(); ++round) {
        if (round == rounds.size()) rounds.push_back({number, relayout.value, relayout.kind, {}});
        rounds[round].packets.push_back(std::move(packets[round]));
      }
    }
    std::move(rounds.begin(), rounds.end(), std::back_inserter(exchanges));
  }
  return exchanges;
}

/// FNV-1a.
class Hash {
 public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < size; ++i) value_ = (value_ ^ bytes[i]) * 1099511628211ULL;
  }
  void add(const std::string& text) { add(text.data(), text.size() + 1); }
  template <typename Number>
    requires std::is_arithmetic_v<Number>
  void add(Number number) {
    add(&number, sizeof(number));
  }
  void add(const std::complex<double>& number) { add(number.real()), add(number.imag()); }
  void add(std::monostate) { add(-1); }
  void add(const Interval& range) { add(range.lo), add(range.hi); }
  void add(const Region& region) { add(region.dims); }
  void add(const ValueRef& ref) { add(ref.id); }
  void add(const Attr& attr) {
    add(attr.index());
    std::visit([&](const auto& value) { add(value); }, attr);
  }
  template <typename Element>
  void add(const std::vector<Element>& list) {
    add(list.size());
    for (const auto& element : list) add(element);
  }
  void add(const CopyPart& part) {
    add(part.worker), add(part.slot), add(part.source), add(part.dest);
  }
  void add(const ComputeInstr& compute) {
    add(compute.target), add(compute.args), add(compute.outputs), add(compute.crop);
    add(compute.output_shapes), add(compute.due);
  }
  void add(const FetchInstr& fetch) {
    add(fetch.relayout), add(fetch.dest), add(fetch.shape), add(fetch.dtype), add(fetch.parts);
    add(fetch.reducing), add(static_cast<int>(fetch.reduce)), add(fetch.fill), add(fetch.view);
    add(fetch.due);
  }
  void add(const FreeInstr& free) { add(free.slot); }
  void add(const Instr& instr) {
    add(instr.index());
    std::visit([&](const auto& one) { add(one); }, instr);
  }
  void add(const Binding& binding) { add(binding.slots), add(binding.regions); }
  void add(const WorkerProgram& worker) { add(worker.forward), add(worker.backward); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037ULL;
};

}  // namespace

std::vector<Region> pieces_of(const Region& box, int itemsize, int64_t packet_bytes) {
  if (box.numel() * itemsize <= packet_bytes) return {box};
  size_t dim = 0;
  while (dim < box.rank() && box.dims[dim].size() == 1) ++dim;
  if (dim == box.rank()) return {box};
  int64_t row_bytes = itemsize;
  for (size_t d = dim + 1; d < box.rank(); ++d) row_bytes *= box.dims[d].size();
  const int64_t rows = std::max<int64_t>(1, packet_bytes / row_bytes);
  std::vector<Region> pieces;
  for (int64_t lo = box.dims[dim].lo; lo < box.dims[dim].hi; lo += rows) {
    Region piece = box;
    piece.dims[dim] = {lo, std::min(lo + rows, box.dims[dim].hi)};
    for (Region& part : pieces_of(piece, itemsize, packet_bytes)) pieces.push_back(std::move(part));
  }
  return pieces;
}

Exchanges list_exchanges(const Program& program, const std::vector<int>& ranks,
                         int64_t packet_bytes) {
  if (ranks.size() != static_cast<size_t>(program.num_workers)) {
    throw InternalError("a program of " + std::to_string(program.num_workers) + " workers has " +
                        std::to_string(ranks.size()) + " ranks");
  }
  return {list_of_phase(program, ranks, packet_bytes, &WorkerProgram::forward),
          list_of_phase(program, ranks, packet_bytes, &WorkerProgram::backward)};
}

int64_t exchanged_bytes(const std::vector<Exchange>& exchanges) {
  int64_t bytes = 0;
  for (const Exchange& exchange : exchanges) {
    for (const Packet& packet : exchange.packets) bytes += packet.bytes;
  }
  return bytes;
}

uint64_t digest(const Program& program) {
  Hash hash;
  hash.add(program.workers);
  hash.add(program.inputs);
  hash.add(program.outputs);
  return hash.value();
}

}  // namespace smex
