#include "runtime/processes/traffic.h"

namespace smex::runtime {

Traffic traffic_of(const std::vector<Exchange>& exchanges, int rank,
                   const std::vector<int>& hosts) {
  Traffic traffic;
  traffic.shared_to.resize(hosts.size());
  traffic.shared_from.resize(hosts.size());
  for (const Exchange& exchange : exchanges) {
    Traffic::Round round;
    bool has_round = false;
    for (const Packet& packet : exchange.packets) {
      const bool shares = hosts[packet.from] >= 0 && hosts[packet.from] == hosts[packet.to];
      has_round = has_round || !shares;
      if (packet.from == rank) {
        const auto number = static_cast<int>(traffic.outgoing.size());
        traffic.outgoing.push_back(packet);
        (shares ? traffic.shared_to[packet.to] : round.outgoing).push_back(number);
        if (!shares) round.sent += packet.bytes;
      } else if (packet.to == rank) {
        const auto number = static_cast<int>(traffic.incoming.size());
        traffic.incoming.push_back(packet);
        traffic.round_of.push_back(shares ? -1 : static_cast<int>(traffic.rounds.size()));
        (shares ? traffic.shared_from[packet.from] : round.incoming).push_back(number);
        if (!shares) round.received += packet.bytes;
      }
    }
    if (has_round) traffic.rounds.push_back(std::move(round));
  }
  return traffic;
}

}  // namespace smex::runtime
