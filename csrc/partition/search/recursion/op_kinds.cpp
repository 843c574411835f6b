#include "partition/search/recursion/op_kinds.h"

namespace smex {

OpKinds::OpKinds(const MergedGraph& merged) : merged_(merged) {
  for (const Value& value : merged.graph.values()) {
    Key key{value.itemsize};
    key.insert(key.end(), value.shape.begin(), value.shape.end());
    for (const Grain& grain : merged.grains[value.id]) key.push_back(grain.key());
    tensor_.push_back(tensors_.number(std::move(key)));
  }
  for (const OpClass& members : merged.ops) {
    const Op& op = merged.graph.op(members.op);
    Key key{op.random, reinterpret_cast<int64_t>(op.spec.get())};
    for (size_t i = 0; op.spec && i < op.spec->indices.size(); ++i) {
      key.push_back(merged.classes.grain(op, static_cast<int>(i)).key());
    }
    meaning_.push_back(meanings_.number(std::move(key)));
  }
}

void OpKinds::begin(const Plan& plan, Steps steps, const Domains& domains) {
  plan_ = &plan;
  steps_ = steps;
  cut_.clear();
  for (const Value& value : merged_.graph.values()) {
    Key key{tensor_[value.id]};
    const Choices rest = steps.others(plan.values[value.id]);
    key.insert(key.end(), rest.begin(), rest.end());
    cut_.push_back(cuts_.number(std::move(key)));
  }
  choice_.clear();
  for (size_t group = 0; group < domains.groups(); ++group) {
    Key key{static_cast<int64_t>(steps.count)};
    for (const Choices& cut : domains.of_group(static_cast<int>(group))) {
      key.insert(key.end(), cut.begin(), cut.end());
    }
    choice_.push_back(choices_.number(std::move(key)));
  }
}

int OpKinds::of(size_t op_class) {
  const OpClass& members = merged_.ops[op_class];
  Key key{static_cast<int64_t>(steps_.first), static_cast<int64_t>(steps_.count),
          static_cast<int64_t>(plan_->mesh.size()), meaning_[op_class]};
  const Choices rest = steps_.others(plan_->ops[members.op]);
  key.insert(key.end(), rest.begin(), rest.end());
  for (const Operand& operand : members.operands) {
    const int group = members.groups[operand.slot];
    key.insert(key.end(), {cut_[operand.value], choice_[group],
                           static_cast<int64_t>(operand.slot * 2 + operand.output),
                           static_cast<int64_t>(operand.position)});
  }
  return kinds_.number(std::move(key));
}

}  // namespace smex
