#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../partition/dense.h"
#include "../partition/graphs.h"
#include "tdl/interpreter.h"
#include "tdl/local_tables.h"
#include "tdl/spec.h"
#include "tdl/text.h"

namespace smex::tdl {
namespace {

using test::Dense;

std::shared_ptr<const Table> table(std::vector<int64_t> numbers) {
  return std::make_shared<const Table>(std::move(numbers));
}

Tensor tensor(const Table& numbers) {
  Tensor made{{}, {numbers.size()}};
  for (int64_t n = 0; n < numbers.size(); ++n) made.data.push_back(static_cast<double>(numbers[n]));
  return made;
}

TEST(Tables, NumbersAreListedOnce) {
  const Table numbers({7, 3, 3, 9, 700, 3});
  EXPECT_EQ(numbers.numbers_at({0, 4})->indices(), (std::vector<int64_t>{3, 7, 9}));
  EXPECT_EQ(numbers.numbers_at({3, 6})->indices(), (std::vector<int64_t>{3, 9, 700}));
  EXPECT_TRUE(numbers.numbers_at({2, 2})->empty());
  EXPECT_EQ(numbers.numbers_at({0, 4}), numbers.numbers_at({0, 4}));
  const std::vector<int32_t> narrow{4, 2};
  EXPECT_EQ(Table(nullptr, narrow.data(), 2)[1], 2);
}

TEST(Tables, NumbersFarApartAreListedToo) {
  const Table numbers({1'000'000'000'000, 5, -3});
  EXPECT_EQ(numbers.numbers_at({0, 3})->indices(),
            (std::vector<int64_t>{-3, 5, 1'000'000'000'000}));
}

/// x and edges' weights at columns and numbers of edges, times the rows' own y.
const std::string kMessages =
    "index v=6, e=9, f=2 input [7], [9], [9], [8,2], [9,1], [6,2] "
    "[v,f] = sum{e}(where(in_row(e, #0[v], #0[add(v, 1)]), "
    "mul(mul(#3[#1[e], f], #4[#2[e], 0]), #5[v,f]), 0))";

Spec messages() {
  Spec spec = parse_spec(kMessages);
  spec.tables = {table({0, 3, 3, 4, 7, 7, 9}),
                 table({5, 0, 5, 7, 1, 2, 0, 6, 5}),
                 table({8, 7, 6, 5, 4, 0, 1, 2, 3}),
                 nullptr,
                 nullptr,
                 nullptr};
  return spec;
}

TEST(Tables, TextReadsBack) {
  EXPECT_EQ(print_spec(parse_spec(print_spec(messages()))), print_spec(messages()));
}

TEST(Tables, RowsThatTheyNameAreGatheredInCacheLines) {
  // Nine places read a row of two numbers, and a number, each within a line.
  EXPECT_EQ(gathered_bytes(messages(), {6, 9, 2}, {8, 8, 8, 4, 4, 4}), 9 * (64 + 64));
  EXPECT_EQ(gathered_bytes(messages(), {3, 4, 2}, {8, 8, 8, 4, 4, 4}), 4 * (64 + 64));
  EXPECT_EQ(gathered_bytes(messages(), {6, 9, 2}, {8, 8, 8, 64, 4, 4}), 9 * (128 + 64));
  EXPECT_EQ(gathered_bytes(messages(), {6, 9, 1}, {8, 8, 8, 64, 4, 4}), 9 * (64 + 64));
  EXPECT_EQ(gathered_bytes(parse_spec(kMessages), {6, 9, 2}, {8, 8, 8, 4, 4, 4}), 0);
}

TEST(Tables, OnlyWhatIsAnIndexMayBeOne) {
  EXPECT_EQ(table_inputs(messages()), (std::vector<int>{0, 1, 2}));
  const Spec both = parse_spec("index i=3 input [3], [4] [i] = add(#0[i], #1[#0[i]])");
  EXPECT_TRUE(table_inputs(both).empty());
}

TEST(Tables, RowsNeedTheirColumnsOnly) {
  const auto needs = input_needs(messages(), {{2, 4}, {0, 9}, {0, 2}});
  EXPECT_EQ(needs[3].region.list->indices(), (std::vector<int64_t>{0, 1, 2, 7}));
  EXPECT_EQ(needs[3].region.dims[1], (Interval{0, 2}));
  EXPECT_EQ(needs[4].region.list->indices(), (std::vector<int64_t>{0, 1, 4, 5}));
  EXPECT_EQ(needs[5].region.str(), "[2:4, 0:2]");
  for (int input = 0; input < 3; ++input) EXPECT_FALSE(needs[input].used) << input;
  EXPECT_EQ(with_rows(messages(), {{2, 4}, {0, 9}, {0, 2}})[1], (Interval{3, 7}));
}

TEST(Tables, ColumnsNextToEachOtherAreAnInterval) {
  Spec spec = messages();
  spec.tables[1] = table({2, 3, 4, 3, 4, 3, 2, 2, 2});
  const Region region = input_needs(spec, {{0, 3}, {0, 9}, {0, 2}})[3].region;
  EXPECT_EQ(region.str(), "[2:5, 0:2]");
  EXPECT_FALSE(region.list);
}

TEST(Tables, TwoReadsNeedWhatEitherDoes) {
  Spec spec = parse_spec("index i=3 input [3], [9] [i] = add(#1[#0[i]], #1[i])");
  spec.tables = {table({8, 5, 5}), nullptr};
  EXPECT_EQ(input_needs(spec, {{0, 2}})[1].region.list->indices(),
            (std::vector<int64_t>{0, 1, 5, 8}));
}

TEST(Tables, RowsAndPlacesSplitOnceTheirBoundsAreKnown) {
  const auto names = [](const Spec& spec) {
    std::string found;
    for (const Split& split : derive_splits(spec)) {
      found += spec.indices[split.index].name + (split.any_reduces() ? "+" : "");
    }
    return found;
  };
  EXPECT_EQ(names(messages()), "ve+f");
  EXPECT_EQ(names(parse_spec(kMessages)), "f");
}

TEST(Tables, WhatDoesNotFitIsFound) {
  const Spec spec = parse_spec(kMessages);
  EXPECT_TRUE(fits(spec, 0, *messages().tables[0]));
  EXPECT_TRUE(fits(spec, 1, *messages().tables[1]));
  EXPECT_FALSE(fits(spec, 1, Table({5, 0, 5, 8, 1, 2, 0, 6, 5})));   // of 8 columns
  EXPECT_FALSE(fits(spec, 1, Table({5, 0, 5, -1, 1, 2, 0, 6, 5})));  // from the end
  EXPECT_FALSE(fits(spec, 0, Table({0, 3, 2, 4, 7, 7, 9})));
  EXPECT_FALSE(fits(spec, 0, Table({0, 3, 3, 4, 7, 7, 10})));
}

TEST(Tables, WorkIsThatOfTheRows) {
  const Spec spec = messages();
  IndexRanges ranges = with_rows(spec, {{2, 4}, {0, 9}, {0, 2}});
  std::vector<int64_t> extents;
  for (const Interval& range : ranges) extents.push_back(range.size());
  EXPECT_EQ(arithmetic(spec, extents), 3.0 * 4 * 2);  // two products and a sum
}

/// A tile computed by the spec itself, with what the tile needs, and in place of the tables its
/// own.
Tensor tile_of(const Spec& spec, const std::vector<Tensor>& inputs, const IndexRanges& asked,
               bool entire_rows) {
  const IndexRanges ranges = with_rows(spec, asked);
  std::vector<Region> frames;
  for (const InputNeed& need : input_needs(spec, ranges)) {
    frames.push_back(need.region);
    // A worker may have more than it needs.
    if (entire_rows && frames.back().list) frames.back() = Region{frames.back().dims};
  }
  const auto tables = local_tables(spec, ranges, frames);
  Spec local = spec;
  local.tables.clear();
  for (size_t i = 0; i < ranges.size(); ++i) local.indices[i].extent = ranges[i].size();
  std::vector<Tensor> given;
  for (size_t n = 0; n < inputs.size(); ++n) {
    if (tables[n]) {
      given.push_back(tensor(Table(*tables[n])));
    } else {
      Dense whole(inputs[n].shape);
      whole.data = inputs[n].data;
      const Dense part = test::slice(whole, frames[n]);
      given.push_back({part.data, part.shape});
    }
    local.input_shapes[n] = given.back().shape;
  }
  return evaluate(local, given)[0];
}

TEST(Tables, TilesAreThoseOfTheWhole) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Spec spec = parse_spec(kMessages);
    const auto [bounds, columns] = test::random_structure(random, 6, 8);
    const auto places = static_cast<int64_t>(columns.size());
    std::vector<int64_t> order(places);
    for (int64_t n = 0; n < places; ++n) order[n] = n;
    std::shuffle(order.begin(), order.end(), random);
    spec.indices[1].extent = places;
    spec.input_shapes = {{7}, {places}, {places}, {8, 2}, {places, 1}, {6, 2}};
    spec.tables = {table(bounds), table(columns), table(order), nullptr, nullptr, nullptr};
    std::vector<Tensor> inputs;
    for (int n = 0; n < 3; ++n) inputs.push_back(tensor(*spec.tables[n]));
    for (int n = 3; n < 6; ++n) {
      const Dense made = test::random_dense(random, spec.input_shapes[n]);
      inputs.push_back({made.data, made.shape});
    }
    Dense whole({6, 2});
    whole.data = evaluate(spec, inputs)[0].data;
    const auto between = [&](int64_t end) {
      const auto lo = static_cast<int64_t>(random() % (end + 1));
      return Interval{lo, lo + static_cast<int64_t>(random() % (end - lo + 1))};
    };
    const IndexRanges ranges{between(6), {0, places}, between(2)};
    EXPECT_EQ(tile_of(spec, inputs, ranges, round % 2).data,
              test::slice(whole, {{ranges[0], ranges[2]}}).data);
    // Sums over parts of the places, added up.
    const auto cut = static_cast<int64_t>(random() % (places + 1));
    const Tensor first = tile_of(spec, inputs, {ranges[0], {0, cut}, {0, 2}}, round % 2);
    const Tensor second = tile_of(spec, inputs, {ranges[0], {cut, places}, {0, 2}}, round % 2);
    std::vector<double> sums = first.data;
    for (size_t n = 0; n < sums.size(); ++n) sums[n] += second.data[n];
    EXPECT_EQ(sums, test::slice(whole, {{ranges[0], {0, 2}}}).data);
  }
}

}  // namespace
}  // namespace smex::tdl
