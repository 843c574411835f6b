#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/processes/collective_calls.h"
#include "runtime/processes/device_wait.h"
#include "runtime/processes/recorder.h"
#include "runtime/processes/segment.h"
#include "runtime/processes/traffic.h"
#include "runtime/processes/watcher.h"
#include "runtime/processes/work_queue.h"

namespace smex::runtime {

struct CommunicatorOptions {
  int rank = 0;
  Group group;  ///< of all processes, for nothing else; may be null where all share memory
  std::vector<int> hosts;  ///< by process; those of one share memory, -1 with nobody
  /// By process of this host its memory, this one's own too; null for others. Empty where no
  /// process shares any.
  std::vector<std::shared_ptr<Segment>> segments;
  c10::intrusive_ptr<c10d::Store> store;  ///< for `announce`
  std::shared_ptr<Watcher> watcher;       ///< of the same ranks
  std::shared_ptr<Recorder> recorder;     ///< of what this process does
  std::string flight_folder;              ///< where that is written after a failure; empty: nowhere
  /// So many bytes may be on their way to others, and as many have arrived, or be on their way
  /// here, that nobody waits for yet.
  int64_t window_bytes = 64 << 20;
};

class Pass;

/// How the processes of one plan reach each other: those of one host through shared memory, others
/// through torch's process group, by messages (Gloo) or collectives (NCCL). A message's receiver
/// asks for it before others send it: Gloo's all-to-all, which does so after, uses half of a link.
///
/// Packets go as soon as what they are made of is there, in the order of exchanges (messages in one
/// of their own, Carriers::order), and wait for their readers in the receiver's memory. Passes
/// follow one another in the same order on all processes. After an error the communicator is of no
/// use any more: peers may wait for what never comes, and Gloo cannot be told to stop. NCCL can:
/// its groups are aborted, since whoever waits for the device waits for their kernels.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  static std::shared_ptr<Communicator> create(CommunicatorOptions options);
  ~Communicator();

  int rank() const { return options_.rank; }
  int size() const { return static_cast<int>(options_.hosts.size()); }
  const std::vector<int>& hosts() const { return options_.hosts; }
  /// So many processes share this one's cores.
  int processes_here() const;

  /// Copies the packet's boxes to where they go; called once for each, by any thread.
  using Pack = std::function<void(const Packet& packet, const at::Tensor& bytes)>;
  /// Begins a pass. Throws RankFailure.
  std::shared_ptr<Pass> begin(std::shared_ptr<const Traffic> traffic, uint64_t digest,
                              c10::Device device, Pack pack);

  /// Gives the group of some processes that this one is among, in ascending order, for collectives
  /// of their own. A process calls this for all of its groups before programs use them.
  void add_group(const std::vector<int>& members, Group group);
  /// Throws UserError where this process is among the members and has no group of them.
  void check_group(const std::vector<int>& members) const;

  /// An error of this process's own: others are told, and every wait here throws from now on.
  void fail(const std::string& where, const std::string& text);
  /// Gives up for what may follow from another rank's failure; who waits is told of that one.
  void lose(const std::string& text);
  /// Throws RankFailure where a rank has failed, or one of `awaited` has ended.
  void check(const std::vector<int>& awaited = {});
  /// The number of what the ranks do next together: passes, and what the host language counts here.
  /// Equal numbers are of the same thing, if all do the same.
  uint64_t next_event() { return num_events_++; }
  /// How somebody waits for other ranks.
  struct Wait {
    uint64_t event = 0;                       ///< that it belongs to, see `next_event`
    uint64_t digest = 0;                      ///< of what is run; 0: that is no program
    std::function<std::vector<int>()> ranks;  ///< that are awaited at the moment
    bool spins = false;                       ///< for a while, before it sleeps
    std::function<void()> look;               ///< is called at times, and may throw
  };
  /// Sleeps until `is_over`, of which the doorbell tells. Throws RankFailure where a rank has
  /// failed, or one that is awaited has ended.
  void await(const Wait& wait, const std::function<bool()>& is_over);
  /// The number that rank 0 passes, on all ranks, which call this at the same place. `device` is
  /// one that the group speaks for; `check_interrupt` may throw.
  int64_t of_first(int64_t number, c10::Device device,
                   const std::function<void()>& check_interrupt);
  Recorder& recorder() { return *options_.recorder; }
  Doorbell& doorbell() { return signal_->doorbell(); }

 private:
  friend class Pass;
  std::vector<int> others() const;
  int64_t of_first_by_store(uint64_t event, int64_t number,
                            const std::function<void()>& check_interrupt);
  std::vector<int> others_of(std::vector<int> ranks) const;
  /// Does what `await` does for a thread, while kernels wait.
  void look_after(const DeviceWait::Collective& collective,
                  std::chrono::steady_clock::duration waited);
  /// Tells ranks that do something else as this event that a pass of `digest` waits, if nobody has
  /// told them; reports where somebody waits in another one.
  void announce(uint64_t event, uint64_t digest);
  /// Warns, once, that this rank has waited long for others.
  void tell_of_wait(const std::vector<int>& ranks);
  explicit Communicator(CommunicatorOptions options);
  void serve();
  /// Another rank has sent what this one does not expect.
  [[noreturn]] void disagree(int other);
  [[noreturn]] void throw_failure(const Failure& failure);
  void give_up(const Failure& failure);
  /// What `post` returns; null where a connection is lost already, as `lose` has been told then.
  c10::intrusive_ptr<c10d::Work> posted(
      const std::function<c10::intrusive_ptr<c10d::Work>()>& post);
  Segment* own_segment() const;
  const Group& group_of(const std::vector<int>& members) const;

  /// What threads of others may touch, also when the communicator has gone.
  class Signal {
   public:
    explicit Signal(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}
    Doorbell& doorbell() { return segment_ ? segment_->doorbell() : own_; }
    void fail();
    /// Has a failure end the group's collectives, whose kernels wait on a device for others.
    void abort_on_failure(const Group& group);
    /// Returns once that is done, or takes too long.
    void await_abort();
    /// The first `text` counts.
    void lose(const std::string& text);
    bool has_failed() const { return failed_; }
    std::string lost();

   private:
    std::shared_ptr<Segment> segment_;
    Doorbell own_;  ///< where there is no shared memory
    std::atomic<bool> failed_{false};
    std::mutex mutex_;
    std::string lost_;  ///< what broke, perhaps since another rank has failed
    std::vector<c10::weak_intrusive_ptr<c10d::ProcessGroup>> abortable_;
    std::shared_future<void> aborted_;  ///< from when that has begun
  };

  CommunicatorOptions options_;
  const std::shared_ptr<Signal> signal_;
  std::atomic<uint64_t> num_events_{0};
  std::atomic<uint64_t> num_announced_{0};  ///< events up to this one
  std::atomic<bool> has_told_of_wait_{false};
  std::mutex giving_up_;
  bool has_given_up_ = false;
  std::map<std::vector<int>, Group> groups_;  ///< of some processes
  /// By group who waits for its collectives, on the CPU.
  std::map<std::vector<int>, std::unique_ptr<WorkQueue>> collectives_;
  // Messages: by peer how many there were, and who waits for them.
  std::vector<uint32_t> num_sent_, num_asked_;
  std::vector<std::unique_ptr<WorkQueue>> receives_, sends_;  ///< by peer, once there is one
  // A thread that goes on with what found no space, while workers compute.
  std::mutex serving_mutex_;
  std::condition_variable serving_changed_;
  std::weak_ptr<Pass> starving_;
  bool closing_ = false;
  std::thread server_;
  DeviceWait device_wait_;
};

/// What is sent and received while one list of a program runs.
class Pass : public std::enable_shared_from_this<Pass> {
 public:
  /// Use Communicator::begin.
  Pass(std::shared_ptr<Communicator> communicator, std::shared_ptr<const Traffic> traffic,
       uint64_t number, uint64_t digest, c10::Device device, Communicator::Pack pack);

  /// All that an outgoing packet is made of is there. Sends it when it is its turn.
  void written(int packet);
  /// Sends what can be sent.
  void advance();
  /// Whether a packet has come. From now on it, and what is before it, is not held back.
  bool is_there(int packet);
  /// Whether a packet has come, which nobody needs yet.
  bool has_come(int packet);
  /// The bytes of a packet that is there.
  at::Tensor bytes(int packet);
  /// Nobody here reads the packet any more.
  void consumed(int packet);
  /// The ranks that an incoming packet waits for.
  std::vector<int> senders(int packet) const;
  uint64_t number() const { return number_; }
  uint64_t digest() const { return digest_; }
  /// Whether everything was handed over.
  bool is_sent();
  /// The ranks to which something was not.
  std::vector<int> receivers();
  /// Nothing is packed any more.
  void close();

 private:
  struct Incoming {
    std::atomic<bool> is_there{false};
    at::Tensor bytes;     ///< of a message, from when it is asked for
    int from = -1;        ///< whose segment it lies in; -1: none
    uint64_t offset = 0;  ///< there
  };
  struct Round {
    at::Tensor sent, received;
    Work work;                         ///< on an accelerator: who reads makes its stream wait
    std::atomic<bool> is_over{false};  ///< on the CPU
    int64_t left = 0;                  ///< bytes of what nobody has consumed
  };

  void send_shared();
  /// False: there is no space for some.
  bool send_shared_to_all();
  bool send_shared_to(int receiver);
  /// Where nobody hears of an error at once.
  void try_advance();
  void send_messages();
  void send_message(const Packet& packet, int turn);
  void sent(int64_t bytes, int turn, bool goes_on);
  void ask_for_messages();
  void ask_for(int packet);
  void start_rounds();
  void start(size_t number);
  /// Calls the round's collective of what is packed.
  Work call(const Traffic::Round& round, Round& state);
  bool is_over(size_t round) const;
  void collect(int from);
  /// What is asked for up to `place` is not held back.
  static void want(std::atomic<int>& wanted, int place);

  const std::shared_ptr<Communicator> communicator_;
  const std::shared_ptr<const Traffic> traffic_;
  const uint64_t number_, digest_;
  const c10::Device device_;
  const Communicator::Pack pack_;
  std::unique_ptr<std::atomic<bool>[]> written_;
  std::unique_ptr<Incoming[]> incoming_;
  bool closed_ = false;  ///< under both mutexes of those that pack
  std::mutex sending_;
  std::vector<size_t> next_to_;  ///< by receiver, among Traffic::shared_to
  std::atomic<bool> all_shared_sent_{false};
  std::mutex receiving_;
  std::vector<size_t> next_from_;
  std::vector<size_t> next_message_;  ///< by receiver, among Traffic::messages_to
  std::atomic<bool> all_messages_sent_{false};
  int64_t unsent_ = 0;               ///< bytes of messages that are on their way
  std::multiset<int> on_their_way_;  ///< the turns of these
  std::mutex asking_;                ///< for messages and rounds
  std::atomic<size_t> next_asked_{0};
  std::unique_ptr<Round[]> rounds_;
  std::atomic<size_t> next_round_{0};
  std::atomic<int> wanted_message_{-1}, wanted_round_{-1};
  std::atomic<int64_t> unread_{0};  ///< bytes that were asked for
};

}  // namespace smex::runtime
