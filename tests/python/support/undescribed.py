"""An operator that no Spec describes."""

import torch

torch.library.define("smex_test::undescribed", "(Tensor x) -> Tensor")
torch.library.impl("smex_test::undescribed", "CompositeExplicitAutograd")(torch.clone)
torch.library.register_fake("smex_test::undescribed")(torch.empty_like)
undescribed = torch.ops.smex_test.undescribed.default
