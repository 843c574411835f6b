#include "runtime/processes/traffic.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "ir/error.h"

namespace smex::runtime {
namespace {

Traffic::Way way_of(const Exchange& exchange, const Packet& packet, const Carriers& carriers) {
  const std::vector<int>& hosts = carriers.hosts;
  if (exchange.collective) return Traffic::Way::kRound;
  if (hosts[packet.from] >= 0 && hosts[packet.from] == hosts[packet.to]) {
    return Traffic::Way::kShared;
  }
  return carriers.by_rounds ? Traffic::Way::kRound : Traffic::Way::kMessage;
}

bool has(const std::vector<int>& group, int process) {
  return std::find(group.begin(), group.end(), process) != group.end();
}

class Division {
 public:
  Division(int rank, const Carriers& carriers) : rank_(rank), carriers_(carriers) {
    traffic_.shared_to.resize(carriers.hosts.size());
    traffic_.shared_from.resize(carriers.hosts.size());
    traffic_.messages_to.resize(carriers.hosts.size());
  }

  Traffic of(const std::vector<Exchange>& exchanges) {
    for (const Exchange& exchange : exchanges) {
      round_ = Traffic::Round{};
      if (exchange.collective) {
        round_.kind = *exchange.collective;
        round_.dtype = exchange.dtype;
      }
      bool has_round = false;
      for (const Packet& packet : exchange.packets) {
        const Traffic::Way way = way_of(exchange, packet, carriers_);
        if (packet.from == rank_) send(packet, way);
        if (packet.to == rank_ && exchange.sums.empty()) receive(packet, way);
        const bool is_own = packet.from == rank_ || packet.to == rank_ || !exchange.collective;
        has_round = has_round || (way == Traffic::Way::kRound && is_own);
      }
      for (const Packet& sum : exchange.sums) {
        if (sum.to == rank_) receive(sum, Traffic::Way::kRound);
      }
      if (!has_round) continue;
      round_.group = group_of(exchange);
      traffic_.rounds.push_back(std::move(round_));
    }
    order_messages();
    return std::move(traffic_);
  }

 private:
  void order_messages() {
    std::map<std::tuple<int, int, int>, int> places;
    for (const Message& message : carriers_.order) {
      const auto place = static_cast<int>(places.size());
      places.emplace(std::tuple(message.relayout, message.from, message.to), place);
    }
    const auto place_of = [&](const Packet& packet, int number) {
      if (places.empty()) return number;
      const auto found = places.find({packet.relayout, packet.from, packet.to});
      if (found != places.end()) return found->second;
      throw InternalError(c10::str("relayout ", packet.relayout, " from process ", packet.from,
                                   " to ", packet.to, " has no place among the messages"));
    };
    const auto sort = [](std::vector<int>& numbers, const auto& place) {
      std::stable_sort(numbers.begin(), numbers.end(),
                       [&](int a, int b) { return place(a) < place(b); });
    };
    traffic_.turn.assign(traffic_.outgoing.size(), -1);
    for (std::vector<int>& numbers : traffic_.messages_to) {
      for (const int n : numbers) traffic_.turn[n] = place_of(traffic_.outgoing[n], n);
      sort(numbers, [&](int n) { return traffic_.turn[n]; });
    }
    sort(traffic_.messages, [&](int n) { return place_of(traffic_.incoming[n], n); });
    for (size_t n = 0; n < traffic_.messages.size(); ++n) {
      traffic_.place[traffic_.messages[n]] = static_cast<int>(n);
    }
  }

  std::vector<int> group_of(const Exchange& exchange) const {
    for (const std::vector<int>& group : exchange.groups) {
      if (has(group, rank_)) return group;
    }
    std::vector<int> all(carriers_.hosts.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void send(const Packet& packet, Traffic::Way way) {
    const bool is_for_all =
        round_.kind == CollectiveKind::kAllGather || round_.kind == CollectiveKind::kAllReduce;
    if (is_for_all && !round_.outgoing.empty()) return;
    const auto number = static_cast<int>(traffic_.outgoing.size());
    traffic_.outgoing.push_back(packet);
    if (way == Traffic::Way::kShared) {
      traffic_.shared_to[packet.to].push_back(number);
    } else if (way == Traffic::Way::kMessage) {
      traffic_.messages_to[packet.to].push_back(number);
    } else {
      round_.outgoing.push_back(number);
      round_.sent += packet.bytes;
    }
  }

  void receive(const Packet& packet, Traffic::Way way) {
    const auto number = static_cast<int>(traffic_.incoming.size());
    traffic_.incoming.push_back(packet);
    traffic_.way.push_back(way);
    traffic_.place.push_back(-1);
    if (way == Traffic::Way::kShared) {
      traffic_.shared_from[packet.from].push_back(number);
    } else if (way == Traffic::Way::kMessage) {
      traffic_.messages.push_back(number);
    } else {
      traffic_.place.back() = static_cast<int>(traffic_.rounds.size());
      round_.incoming.push_back(number);
      round_.received += packet.bytes;
    }
  }

  const int rank_;
  const Carriers& carriers_;
  Traffic traffic_;
  Traffic::Round round_;
};

std::string name_of(Traffic::Way way) {
  switch (way) {
    case Traffic::Way::kShared:
      return "shared memory";
    case Traffic::Way::kMessage:
      return "messages";
    case Traffic::Way::kRound:
      return "all-to-all of all";
  }
  return "";
}

}  // namespace

Traffic traffic_of(const std::vector<Exchange>& exchanges, int rank, const Carriers& carriers) {
  return Division(rank, carriers).of(exchanges);
}

std::map<std::string, Volume> volumes_of(const std::vector<Exchange>& exchanges,
                                         const Carriers& carriers) {
  std::map<std::string, Volume> volumes;
  std::set<std::pair<std::string, int>> seen;
  for (const Exchange& exchange : exchanges) {
    for (const Packet& packet : exchange.packets) {
      const std::string name = exchange.collective ? smex::name_of(*exchange.collective)
                                                   : name_of(way_of(exchange, packet, carriers));
      Volume& volume = volumes[name];
      volume.relayouts += seen.insert({name, exchange.relayout}).second;
      const auto leads = [&](const std::vector<int>& group) { return group[0] == packet.from; };
      const bool is_first_of_group =
          std::any_of(exchange.groups.begin(), exchange.groups.end(), leads) &&
          std::none_of(exchange.packets.begin(), exchange.packets.end(), [&](const Packet& other) {
            return other.from == packet.from && other.to < packet.to;
          });
      volume.packets += !exchange.collective || is_first_of_group;
      if (packet.from != packet.to) volume.bytes += packet.bytes;
    }
  }
  return volumes;
}

}  // namespace smex::runtime
