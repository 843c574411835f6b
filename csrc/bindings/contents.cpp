#include <pybind11/pybind11.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "bindings/bindings.h"

namespace py = pybind11;

namespace smex::bindings {
namespace {

/// What a container held when it was read, in the order of its iteration; a dict's keys and values
/// in turn. A cell of a closure is one too.
class Held {
 public:
  explicit Held(py::object container) : container_(std::move(container)) {
    if (PyDict_Check(container_.ptr()) != 0) {
      PyObject* key = nullptr;
      PyObject* value = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(container_.ptr(), &at, &key, &value) != 0;) {
        keep(key);
        keep(value);
      }
    } else if (is_cell()) {
      if (PyObject* item = PyCell_GET(container_.ptr())) keep(item);
    } else if (!is_list()) {
      for (const py::handle item : py::iter(container_)) keep(item.ptr());
    } else {
      for (Py_ssize_t at = 0; at < PyList_GET_SIZE(container_.ptr()); ++at) {
        keep(PyList_GET_ITEM(container_.ptr(), at));
      }
    }
  }

  bool same() const {
    if (PyDict_Check(container_.ptr()) != 0) return same_dict();
    if (is_cell())
      return PyCell_GET(container_.ptr()) == (items_.empty() ? nullptr : items_[0].ptr());
    return is_list() ? same_list() : same_items();
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(container_.ptr());
    for (const py::object& item : items_) Py_VISIT(item.ptr());
    return 0;
  }

 private:
  void keep(PyObject* item) { items_.push_back(py::reinterpret_borrow<py::object>(item)); }
  bool is_list() const { return PyList_Check(container_.ptr()) != 0; }
  bool is_cell() const { return PyCell_Check(container_.ptr()) != 0; }

  bool same_dict() const {
    if (2 * PyDict_GET_SIZE(container_.ptr()) != static_cast<Py_ssize_t>(items_.size())) {
      return false;
    }
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    std::size_t k = 0;
    for (Py_ssize_t at = 0; PyDict_Next(container_.ptr(), &at, &key, &value) != 0; k += 2) {
      if (items_[k].ptr() != key || items_[k + 1].ptr() != value) return false;
    }
    return true;
  }

  bool same_list() const {
    if (PyList_GET_SIZE(container_.ptr()) != static_cast<Py_ssize_t>(items_.size())) return false;
    for (std::size_t k = 0; k < items_.size(); ++k) {
      PyObject* item = PyList_GET_ITEM(container_.ptr(), static_cast<Py_ssize_t>(k));
      if (items_[k].ptr() != item) return false;
    }
    return true;
  }

  bool same_items() const {
    std::size_t k = 0;
    for (const py::handle item : py::iter(container_)) {
      if (k == items_.size() || items_[k].ptr() != item.ptr()) return false;
      ++k;
    }
    return k == items_.size();
  }

  py::object container_;
  std::vector<py::object> items_;
};

class Contents {
 public:
  explicit Contents(const py::iterable& containers) {
    for (const py::handle container : containers) {
      held_.emplace_back(py::reinterpret_borrow<py::object>(container));
    }
  }

  bool same() const {
    for (const Held& each : held_) {
      if (!each.same()) return false;
    }
    return true;
  }

  int traverse(visitproc visit, void* arg) const {
    for (const Held& each : held_) {
      if (const int stopped = each.traverse(visit, arg)) return stopped;
    }
    return 0;
  }

  void clear() { std::exchange(held_, {}); }

 private:
  std::vector<Held> held_;
};

/// The contents of an object of Python; null while it is being made.
Contents* contents_of(PyObject* self) {
  auto* instance = reinterpret_cast<py::detail::instance*>(self);
  py::detail::value_and_holder value = instance->get_value_and_holder();
  return value.holder_constructed() ? value.value_ptr<Contents>() : nullptr;
}

/// A model may lead back to who watches it: the garbage collector sees what is held.
void collect_cycles(PyHeapTypeObject* made) {
  PyTypeObject& type = made->ht_type;
  type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    const Contents* contents = contents_of(self);
    return contents == nullptr ? 0 : contents->traverse(visit, arg);
  };
  type.tp_clear = [](PyObject* self) {
    if (Contents* contents = contents_of(self)) contents->clear();
    return 0;
  };
}

}  // namespace

void bind_contents(py::module_& m) {
  py::class_<Contents>(m, "Contents",
                       "What dicts, lists, sets, cells of closures and other containers hold now, "
                       "to be compared with later: by "
                       "identity, so that nothing of Python is called for dicts and lists.",
                       py::custom_type_setup(&collect_cycles))
      .def(py::init<const py::iterable&>(), py::arg("containers"))
      .def("same", &Contents::same,
           "Whether all of them hold the very objects that they held, in the same order.");
}

}  // namespace smex::bindings
