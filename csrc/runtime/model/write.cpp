#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/version.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <unordered_map>

#include "ir/error.h"
#include "runtime/model/fields.h"
#include "runtime/model/model_file.h"

namespace smex::runtime {
namespace {

using c10::IValue;

IValue tuple_of(std::vector<IValue> items) { return c10::ivalue::Tuple::create(std::move(items)); }

/// Makes torch's values of structures.
class Writer {
 public:
  template <typename... Ts>
  void operator()(const Ts&... members) {
    (items_.push_back(value(members)), ...);
  }

  template <typename T>
  static IValue value(const T& given) {
    if constexpr (std::is_same_v<T, bool>) {
      return given;
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      return static_cast<int64_t>(given);
    } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::string>) {
      return given;
    } else {
      Writer writer;
      fields(writer, given);
      return tuple_of(std::move(writer.items_));
    }
  }

  static IValue value(std::monostate) { return {}; }
  static IValue value(const std::complex<double>& number) {
    return tuple_of({number.real(), number.imag()});
  }

  template <typename T>
  static IValue value(const std::vector<T>& list) {
    if constexpr (std::is_integral_v<T>) {
      c10::List<int64_t> numbers;
      numbers.reserve(list.size());
      for (const auto number : list) numbers.push_back(static_cast<int64_t>(number));
      return numbers;
    } else {
      std::vector<IValue> items;
      items.reserve(list.size());
      for (const T& item : list) items.push_back(value(item));
      return tuple_of(std::move(items));
    }
  }

  template <typename... Ts>
  static IValue value(const std::variant<Ts...>& one) {
    const auto kind = static_cast<int64_t>(one.index());
    return tuple_of({kind, std::visit([](const auto& held) { return value(held); }, one)});
  }

  template <typename T>
  static IValue value(const std::shared_ptr<const T>& shared) {
    return shared ? value(*shared) : IValue();
  }

  static IValue value(const IndexList& list) {
    std::vector<int64_t> ends;
    for (auto run = list.runs(); run; ++run) {
      ends.push_back(run->lo);
      ends.push_back(run->hi);
    }
    return value(ends);
  }

 private:
  std::vector<IValue> items_;
};

/// Tensors by number, each once.
class Tensors {
 public:
  int64_t add(const at::Tensor& tensor) {
    if (!tensor.defined()) return -1;
    const auto [known, is_new] =
        numbers_.emplace(tensor.unsafeGetTensorImpl(), static_cast<int64_t>(items_.size()));
    if (is_new) items_.push_back(on_host(tensor));
    return known->second;
  }

  IValue take() { return tuple_of(std::move(items_)); }

 private:
  /// In memory of its own size: the archive has whole storages.
  static IValue on_host(const at::Tensor& tensor) {
    at::Tensor plain = tensor.detach().resolve_conj().resolve_neg().cpu();
    const bool is_part = plain.has_storage() && plain.storage().nbytes() > plain.nbytes();
    return is_part ? plain.clone() : plain;
  }

  std::vector<IValue> items_;
  std::unordered_map<const void*, int64_t> numbers_;
};

IValue contents_of(const ModelFile& file) {
  Tensors tensors;
  std::vector<IValue> state, constants;
  for (const WorkerTensors& tiles : file.state) {
    std::vector<int64_t> numbers;
    for (const at::Tensor& tile : tiles) numbers.push_back(tensors.add(tile));
    state.push_back(Writer::value(numbers));
  }
  for (const at::Tensor& constant : file.form.constants) {
    constants.emplace_back(tensors.add(constant));
  }
  return tuple_of({kFormatName, kFormatVersion, TORCH_VERSION, Writer::value(file),
                   tuple_of(std::move(state)), tuple_of(std::move(constants)), tensors.take()});
}

void write_archive(std::ofstream& stream, const IValue& contents) {
  std::vector<char> pickled;
  torch::jit::Pickler pickler(
      [&](const char* bytes, size_t size) { pickled.insert(pickled.end(), bytes, bytes + size); });
  pickler.protocol();
  pickler.pushIValue(contents);
  pickler.stop();
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, size_t size) {
    stream.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    return stream ? size : 0;
  });
  torch::jit::writeArchiveAndTensors("data", pickled.data(), pickled.size(), pickler.tensorData(),
                                     writer);
  writer.writeEndOfFile();
}

}  // namespace

void write_model(const std::string& path, const ModelFile& file) {
  const std::string part = path + ".part";
  const auto fail = [&](const std::string& why) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    throw UserError("export: \"" + path + "\" cannot be written: " + why);
  };
  const IValue contents = contents_of(file);
  errno = 0;
  std::ofstream stream(part, std::ios::binary);
  if (!stream) fail(std::strerror(errno));
  try {
    write_archive(stream, contents);
  } catch (const c10::Error& error) {
    fail(error.what_without_backtrace());
  }
  stream.close();
  if (!stream) fail(std::strerror(errno));
  std::error_code error;
  std::filesystem::rename(part, path, error);
  if (error) fail(error.message());
}

}  // namespace smex::runtime
