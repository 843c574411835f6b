#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace smex::runtime {

/// What every instruction runs under: no autograd, no autocast, no Python modes of the caller.
struct PlainDispatch {
  c10::AutoGradMode no_grad{false};
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_modes{
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                           c10::DispatchKey::PythonDispatcher,
                           c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                           c10::DispatchKey::FuncTorchDynamicLayerBackMode})};
};

}  // namespace smex::runtime
