#include "partition/lower/exchange.h"

#include <algorithm>
#include <complex>
#include <map>
#include <type_traits>

#include "ir/error.h"
#include "partition/lower/overlap.h"

namespace smex {
namespace {

/// An order in packets of at most so many bytes; `packet` says whose.
std::vector<Packet> packets_of(const Order& order, const Packet& packet, int itemsize,
                               int64_t packet_bytes) {
  std::vector<Packet> packets;
  for (const Parcel& parcel : order) {
    for (Region& piece : pieces_of(parcel.box, itemsize, packet_bytes)) {
      const int64_t bytes = piece.numel() * itemsize;
      if (packets.empty() || packets.back().bytes + bytes > packet_bytes) packets.push_back(packet);
      Packet& last = packets.back();
      last.parcels.push_back({parcel.worker, parcel.slot, std::move(piece), last.bytes});
      last.bytes += bytes;
    }
  }
  return packets;
}

/// The rounds of one relayout.
class Rounds {
 public:
  Rounds(int relayout, const Orders& orders, const Collective* collective, int64_t packet_bytes)
      : orders_(orders), packet_bytes_(packet_bytes) {
    like_.relayout = relayout;
    like_.value = orders.first->value;
    like_.kind = orders.first->kind;
    if (!collective) return;
    like_.collective = collective->kind;
    like_.groups = collective->groups;
    if (adds(collective->kind)) like_.dtype = orders.first->dtype;
  }

  std::vector<Exchange> list(const std::vector<int>& ranks) {
    std::map<std::pair<int, int>, Order> by_pair = orders_.by_pair;
    if (!like_.dtype.empty()) add_sums(ranks, by_pair);
    for (const auto& [pair, order] : by_pair) {
      add(&Exchange::packets, order, {like_.relayout, pair.first, pair.second, 0, {}});
    }
    return std::move(rounds_);
  }

 private:
  void add_sums(const std::vector<int>& ranks, std::map<std::pair<int, int>, Order>& by_pair) {
    for (const auto& [worker, fetch] : orders_.fetches) {
      const int process = ranks[worker];
      const auto takes_part = [&](const std::vector<int>& group) {
        return std::find(group.begin(), group.end(), process) != group.end();
      };
      if (std::none_of(like_.groups.begin(), like_.groups.end(), takes_part)) continue;
      for (const CopyPart& part : fetch->parts) {
        if (ranks[part.worker] == process) add_box(by_pair[{process, process}], part);
      }
      add(&Exchange::sums, {{worker, fetch->dest, Region::whole(fetch->shape)}},
          {like_.relayout, /*from=*/-1, process, 0, {}});
    }
  }

  void add(std::vector<Packet> Exchange::* to, const Order& order, const Packet& packet) {
    std::vector<Packet> packets = packets_of(order, packet, orders_.itemsize, packet_bytes_);
    for (size_t n = 0; n < packets.size(); ++n) {
      if (n == rounds_.size()) rounds_.push_back(like_);
      (rounds_[n].*to).push_back(std::move(packets[n]));
    }
  }

  const Orders& orders_;
  const int64_t packet_bytes_;
  Exchange like_;
  std::vector<Exchange> rounds_;
};

std::vector<Exchange> list_of_phase(const Program& program, const std::vector<int>& ranks,
                                    int64_t packet_bytes, bool backward,
                                    const std::vector<Collective>& collectives) {
  std::map<int, const Collective*> by_relayout;
  for (const Collective& collective : collectives) {
    if (collective.backward == backward) by_relayout[collective.relayout] = &collective;
  }
  const auto list = backward ? &WorkerProgram::backward : &WorkerProgram::forward;
  std::vector<Exchange> exchanges;
  const std::map<int, Orders> all = list_orders(program, ranks, list);
  for (const int number : relayout_order(program, backward)) {
    const auto orders = all.find(number);
    if (orders == all.end()) continue;  // within a process
    const auto collective = by_relayout.find(number);
    std::vector<Exchange> rounds =
        Rounds(number, orders->second,
               collective == by_relayout.end() ? nullptr : collective->second, packet_bytes)
            .list(ranks);
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
  void add(const Region& region) {
    add(region.dims), add(region.axis);
    if (!region.list) return;
    for (auto run = region.list->runs(); run; ++run) add(*run);
  }
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
    add(part.worker), add(part.slot), add(part.source), add(part.dest), add(part.in_place);
  }
  void add(const ComputeInstr& compute) {
    add(compute.target), add(compute.args), add(compute.outputs), add(compute.crop);
    add(compute.output_shapes), add(compute.due), add(compute.inside.dest);
    add(compute.inside.offset);
  }
  void add(const FetchInstr& fetch) {
    add(fetch.relayout), add(fetch.dest), add(fetch.shape), add(fetch.dtype), add(fetch.parts);
    add(fetch.reducing), add(static_cast<int>(fetch.reduce)), add(fetch.fill), add(fetch.view);
    add(fetch.due);
  }
  void add(const FreeInstr& free) { add(free.slot); }
  void add(const MoveInstr& move) {
    add(static_cast<int>(move.kind));
    for (const Slot slot : move.slots) add(slot);
  }
  void add(const Instr& instr) {
    add(instr.index());
    std::visit([&](const auto& one) { add(one); }, instr);
  }
  void add(const Binding& binding) {
    add(binding.slots), add(binding.regions);
    for (const auto& content : binding.contents) {
      if (content) add(*content);
    }
  }
  void add(const WorkerProgram& worker) { add(worker.forward), add(worker.backward); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037ULL;
};

/// Of a box in coordinates of its own.
void add_pieces(const Region& box, int itemsize, int64_t packet_bytes,
                std::vector<Region>& pieces) {
  size_t dim = 0;
  while (dim < box.rank() && box.dims[dim].size() == 1) ++dim;
  if (box.numel() * itemsize <= packet_bytes || dim == box.rank()) {
    pieces.push_back(box);
    return;
  }
  int64_t row_bytes = itemsize;
  for (size_t d = dim + 1; d < box.rank(); ++d) row_bytes *= box.dims[d].size();
  const int64_t rows = std::max<int64_t>(1, packet_bytes / row_bytes);
  for (int64_t lo = box.dims[dim].lo; lo < box.dims[dim].hi; lo += rows) {
    Region piece = box;
    piece.dims[dim] = {lo, std::min(lo + rows, box.dims[dim].hi)};
    add_pieces(piece, itemsize, packet_bytes, pieces);
  }
}

}  // namespace

std::vector<Region> pieces_of(const Region& box, int itemsize, int64_t packet_bytes) {
  if (box.numel() * itemsize <= packet_bytes) return {box};
  std::vector<Region> pieces;
  add_pieces(Region::whole(box.shape()), itemsize, packet_bytes, pieces);
  for (Region& piece : pieces) piece = piece.absolute_in(box);
  return pieces;
}

Exchanges list_exchanges(const Program& program, const std::vector<int>& ranks,
                         int64_t packet_bytes, const std::vector<Collective>& collectives) {
  return {list_of_phase(program, ranks, packet_bytes, /*backward=*/false, collectives),
          list_of_phase(program, ranks, packet_bytes, /*backward=*/true, collectives)};
}

int64_t exchanged_bytes(const std::vector<Exchange>& exchanges) {
  int64_t bytes = 0;
  for (const Exchange& exchange : exchanges) {
    for (const Packet& packet : exchange.packets) {
      if (packet.from != packet.to) bytes += packet.bytes;
    }
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
