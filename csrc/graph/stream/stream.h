// Graphs that are read from files block by block, in memory for their nodes and one block.
#pragma once

#include <cstdint>
#include <vector>

#include "edges/workers.h"

namespace smex::graph {

/// An edge on its way to its row: 16 bytes in a file.
struct EdgeRecord {
  static constexpr int kColumnBits = 40;
  static constexpr int64_t kMaxColumns = int64_t{1} << kColumnBits;
  static constexpr int64_t kMaxBucketRows = int64_t{1} << (64 - kColumnBits);

  uint64_t row_and_column = 0;  ///< row within the bucket, then column
  int64_t id = 0;

  int64_t row() const { return static_cast<int64_t>(row_and_column >> kColumnBits); }
  int64_t column() const { return static_cast<int64_t>(row_and_column & (kMaxColumns - 1)); }
};

/// A block of edges as they are read: edge i joins `rows[i]` to `columns[i]`.
template <typename Index>
struct EdgeBlock {
  const Index* rows = nullptr;
  const Index* columns = nullptr;
  int64_t num_edges = 0;
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  const int64_t* new_rows = nullptr;     ///< [num_rows] their new numbers; null: as they are
  const int64_t* new_columns = nullptr;  ///< [num_columns], as above
  int64_t first_id = 0;                  ///< of the block's first edge
};

/// Groups a block by bucket, the edges of one in their order: the first step of a counting sort
/// whose buckets lie in a file. Bucket b has the new rows `bounds[b]` to `bounds[b + 1]`, at most
/// `EdgeRecord::kMaxBucketRows`. `records` and `order` have one element for each edge, `order` its
/// place in the block; `counts [num_buckets]` how many each bucket gets.
///
/// Returns the first edge of which an end does not exist, with the output unspecified, or -1.
template <typename Index>
int64_t bucket_edges(const EdgeBlock<Index>& edges, const std::vector<int64_t>& bounds,
                     EdgeRecord* records, int64_t* order, int64_t* counts, const Workers& workers);

/// Orders the records of one bucket by row, those of a row as they are: the second step. `indptr
/// [num_rows + 1]` has the places of the bucket's rows among all. `columns`, `ids` and `order`, if
/// not null, have one element for each record. Returns the first record that does not belong there,
/// or -1.
int64_t order_bucket(const EdgeRecord* records, int64_t count, const int64_t* indptr,
                     int64_t num_rows, int64_t* columns, int64_t* ids, int64_t* order);

/// Adds to `counts[id]` how often each id appears. Returns the place of the first id that is not
/// below `size`, or -1.
template <typename Index>
int64_t add_counts(const Index* ids, int64_t count, int64_t size, int64_t* counts);

/// How a stream of nodes is assigned to parts.
struct StreamRule {
  /// Linear deterministic greedy, Stanton and Kliot, "Streaming Graph Partitioning for Large
  /// Distributed Graphs" (KDD 2012), §4: neighbours there x (1 - load / capacity).
  /// Otherwise Fennel, Tsourakakis et al. (WSDM 2014), §4: neighbours there - alpha x 3/2 x the
  /// square root of the load.
  bool is_ldg = true;
  double alpha = 0;           ///< of Fennel: edges x sqrt(parts) / nodes^1.5
  bool weighs_edges = false;  ///< whether a node's load is 1 + its neighbours, not 1
  int64_t num_parts = 1;
  const int32_t* kinds = nullptr;       ///< of each node; null: all are of kind 0
  const int64_t* capacities = nullptr;  ///< [num_kinds] that no part exceeds, while it can be
};

/// Assigns the nodes `first` to `first + num_nodes` one after another; `indptr [num_nodes + 1]`,
/// from any start on, bounds their `neighbors`. `parts` of all nodes: -1 where a node has none yet;
/// those of an earlier pass count for neighbours until their turn comes (Nishimura and Ugander,
/// "Restreaming Graph Partitioning", KDD 2013). `loads [num_kinds, num_parts]` of this pass. Equal
/// scores go to the lesser load, then the lower part. Returns how many have another part than
/// before.
template <typename Index>
int64_t assign_stream(const int64_t* indptr, const Index* neighbors, int64_t first,
                      int64_t num_nodes, const StreamRule& rule, int32_t* parts, int64_t* loads);

/// What `parse_numbers` found.
struct ParsedText {
  int64_t num_lines = 0;   ///< with numbers
  int64_t bad_place = -1;  ///< the byte where a line that has none of them begins, or -1
};

/// Reads lines of `columns` whole numbers each, as many as there are, into `out [.., columns]`
/// (room for a line of each two bytes for each column). Numbers are parted by `delimiter` or
/// blanks; lines that are empty or begin with # or % are left out.
ParsedText parse_numbers(const char* text, int64_t size, char delimiter, int64_t columns,
                         int64_t* out);

}  // namespace smex::graph
