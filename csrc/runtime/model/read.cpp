#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include <filesystem>

#include "ir/error.h"
#include "runtime/dtype.h"
#include "runtime/model/fields.h"
#include "runtime/model/model_file.h"

namespace smex::runtime {
namespace {

using c10::IValue;

const std::vector<IValue>& items_of(const IValue& tuple, std::vector<IValue>& storage) {
  storage = tuple.toTupleRef().elements().vec();
  return storage;
}

/// Makes structures of torch's values. Throws c10::Error where these are of another kind.
class Reader {
 public:
  explicit Reader(const IValue& tuple) { items_of(tuple, items_); }

  template <typename... Ts>
  void operator()(Ts&... members) {
    TORCH_CHECK(items_.size() == sizeof...(Ts), "expected ", sizeof...(Ts), " fields, found ",
                items_.size());
    size_t n = 0;
    (read(items_[n++], members), ...);
  }

  template <typename T>
  static T make(const IValue& value) {
    T made{};
    read(value, made);
    return made;
  }

 private:
  template <typename T>
  static void read(const IValue& value, T& into) {
    if constexpr (std::is_same_v<T, bool>) {
      TORCH_CHECK(value.isBool(), "expected a bool, found ", value.tagKind());
      into = value.toBool();
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      TORCH_CHECK(value.isInt(), "expected an integer, found ", value.tagKind());
      into = static_cast<T>(value.toInt());
    } else if constexpr (std::is_same_v<T, double>) {
      TORCH_CHECK(value.isDouble(), "expected a number, found ", value.tagKind());
      into = value.toDouble();
    } else if constexpr (std::is_same_v<T, std::string>) {
      TORCH_CHECK(value.isString(), "expected a string, found ", value.tagKind());
      into = value.toStringRef();
    } else {
      Reader reader(value);
      fields(reader, into);
    }
  }

  static void read(const IValue&, std::monostate&) {}
  static void read(const IValue& value, std::complex<double>& number) {
    std::vector<IValue> parts;
    items_of(value, parts);
    number = {parts.at(0).toDouble(), parts.at(1).toDouble()};
  }

  template <typename T>
  static void read(const IValue& value, std::vector<T>& list) {
    if constexpr (std::is_integral_v<T>) {
      TORCH_CHECK(value.isIntList(), "expected integers, found ", value.tagKind());
      for (const int64_t number : value.toIntVector()) list.push_back(static_cast<T>(number));
    } else {
      std::vector<IValue> items;
      list.reserve(items_of(value, items).size());
      for (const IValue& item : items) read(item, list.emplace_back());
    }
  }

  template <typename... Ts>
  static void read(const IValue& value, std::variant<Ts...>& one) {
    std::vector<IValue> parts;
    items_of(value, parts);
    const auto kind = static_cast<size_t>(parts.at(0).toInt());
    TORCH_CHECK(kind < sizeof...(Ts), "expected one of ", sizeof...(Ts), " kinds, found ", kind);
    size_t n = 0;
    static_cast<void>(((n++ == kind && (one = make<Ts>(parts.at(1)), true)) || ...));
  }

  template <typename T>
  static void read(const IValue& value, std::shared_ptr<const T>& shared) {
    if (!value.isNone()) shared = std::make_shared<const T>(make<T>(value));
  }

  static void read(const IValue& value, IndexList& list) {
    const std::vector<int64_t> ends = value.toIntVector();
    IndexList::Builder builder;
    for (size_t n = 0; n + 1 < ends.size(); n += 2) builder.add({ends[n], ends[n + 1]});
    list = builder.build();
  }

  std::vector<IValue> items_;
};

ModelFile make_model(const std::string& path, const IValue& contents) {
  std::vector<IValue> parts, state, constants, tensors;
  TORCH_CHECK(contents.isTuple(), "expected a tuple, found ", contents.tagKind());
  items_of(contents, parts);
  TORCH_CHECK(parts.size() > 1 && parts[0].isString() && parts[0].toStringRef() == kFormatName,
              "expected \"", kFormatName, "\" as its first item");
  if (const int64_t version = parts[1].toInt(); version != kFormatVersion) {
    throw UserError(c10::str("Model::load: \"", path, "\" has format ", version,
                             ", this library reads format ", kFormatVersion,
                             "; export the net again with this version"));
  }
  auto file = Reader::make<ModelFile>(parts.at(3));
  items_of(parts.at(6), tensors);
  const auto tensor_at = [&](int64_t number) {
    return number < 0 ? at::Tensor() : tensors.at(static_cast<size_t>(number)).toTensor();
  };
  for (const IValue& numbers : items_of(parts.at(4), state)) {
    WorkerTensors& tiles = file.state.emplace_back();
    for (const int64_t number : numbers.toIntVector()) tiles.push_back(tensor_at(number));
  }
  for (const IValue& number : items_of(parts.at(5), constants)) {
    file.form.constants.push_back(tensor_at(number.toInt()));
  }
  return file;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::vector<Returned> returned_of(const ModelFile& file) {
  std::vector<Returned> found;
  for (size_t n = 0; n < file.form.made.size(); ++n) {
    const CallForm::Made& made = file.form.made[n];
    const bool is_result = made.use == CallForm::Use::kResult;
    if (!is_result && made.use != CallForm::Use::kInputUpdate) continue;
    const ModelTensor& tensor = (is_result ? file.outputs : file.inputs).at(made.index);
    const auto itemsize = static_cast<int>(c10::elementSize(parse_dtype(tensor.dtype)));
    found.push_back({n, tensor.name, tensor.dtype, itemsize, made.shape});
  }
  return found;
}

ModelFile read_model(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) {
    throw UserError("Model::load: there is no file \"" + path + "\"");
  }
  const auto refuse = [&](const std::string& why) {
    return UserError("Model::load: \"" + path +
                     "\" is not a whole file of net.export: " + first_line(why));
  };
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    return make_model(path,
                      torch::jit::readArchiveAndTensors("data", "", "", std::nullopt, std::nullopt,
                                                        at::Device(at::kCPU), reader));
  } catch (const c10::Error& error) {
    throw refuse(error.what_without_backtrace());
  } catch (const std::out_of_range& error) {
    throw refuse(error.what());
  } catch (const InternalError& error) {
    throw refuse(error.what());
  }
}

}  // namespace smex::runtime
