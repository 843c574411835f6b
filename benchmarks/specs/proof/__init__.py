"""The proof of the registry: every Spec and strategy executed on PyTorch's OpInfo samples."""
