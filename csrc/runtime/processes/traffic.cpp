#include "runtime/processes/traffic.h"

namespace smex::runtime {

Traffic traffic_of(const std::vector<Exchange>& exchanges, int rank, const std::vector<int>& hosts,
                   bool by_rounds) {
  Traffic traffic;
  traffic.shared_to.resize(hosts.size());
  traffic.shared_from.resize(hosts.size());
  traffic.messages_to.resize(hosts.size());
  const auto way_of = [&](const Packet& packet) {
    if (hosts[packet.from] >= 0 && hosts[packet.from] == hosts[packet.to]) {
      return Traffic::Way::kShared;
    }
    return by_rounds ? Traffic::Way::kRound : Traffic::Way::kMessage;
  };
  for (const Exchange& exchange : exchanges) {
    Traffic::Round round;
    bool has_round = false;
    for (const Packet& packet : exchange.packets) {
      const Traffic::Way way = way_of(packet);
      has_round = has_round || way == Traffic::Way::kRound;
      if (packet.from == rank) {
        const auto number = static_cast<int>(traffic.outgoing.size());
        traffic.outgoing.push_back(packet);
        if (way == Traffic::Way::kShared) {
          traffic.shared_to[packet.to].push_back(number);
        } else if (way == Traffic::Way::kMessage) {
          traffic.messages_to[packet.to].push_back(number);
        } else {
          round.outgoing.push_back(number);
          round.sent += packet.bytes;
        }
      } else if (packet.to == rank) {
        const auto number = static_cast<int>(traffic.incoming.size());
        traffic.incoming.push_back(packet);
        traffic.way.push_back(way);
        traffic.place.push_back(-1);
        if (way == Traffic::Way::kShared) {
          traffic.shared_from[packet.from].push_back(number);
        } else if (way == Traffic::Way::kMessage) {
          traffic.place.back() = static_cast<int>(traffic.messages.size());
          traffic.messages.push_back(number);
        } else {
          traffic.place.back() = static_cast<int>(traffic.rounds.size());
          round.incoming.push_back(number);
          round.received += packet.bytes;
        }
      }
    }
    if (has_round) traffic.rounds.push_back(std::move(round));
  }
  return traffic;
}

}  // namespace smex::runtime
