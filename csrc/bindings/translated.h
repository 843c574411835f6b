#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include "ir/error.h"
#include "runtime/processes/failure.h"

namespace smex::bindings {

/// Sets Python's error to a smex.RankFailure.
void raise_rank_failure(const runtime::Failure& failure);

/// Runs `call`; torch's exceptions become the Python classes that torch itself raises.
template <class Call>
auto translated(const Call& call) {
  try {
    return call();
  } catch (const UserError&) {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const runtime::RankFailure&) {
    throw;
  } catch (const pybind11::builtin_exception&) {
    throw;
  } catch (const pybind11::error_already_set&) {
    throw;
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    throw pybind11::error_already_set();
  }
}

}  // namespace smex::bindings
