"""Features of nodes and edges, in memory or in files, and the stage that reads them."""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import functional_datapipe

from smex.errors import SmexTypeError, SmexValueError
from smex.graph.features.row_cache import RowCache
from smex.graph.graphbolt.base import etype_tuple_to_str, index_select
from smex.graph.graphbolt.metadata import OnDiskFeatureData
from smex.graph.graphbolt.minibatch import MiniBatch
from smex.graph.graphbolt.stages import MiniBatchTransformer

__all__ = [
    "BasicFeatureStore",
    "Feature",
    "FeatureFetcher",
    "FeatureStore",
    "GPUCachedFeature",
    "TorchBasedFeature",
    "TorchBasedFeatureStore",
]


def _abstract(owner: object, method: str) -> NotImplementedError:
    return NotImplementedError(f"{type(owner).__name__}: a subclass defines {method}")


class Feature:
    """The base of a feature: rows by id."""

    def read(self, ids: Tensor | None = None) -> Tensor:
        """Returns rows, all of them by default."""
        raise _abstract(self, "read")

    def size(self) -> torch.Size:
        """Returns the shape of a row."""
        raise _abstract(self, "size")

    def update(self, value: Tensor, ids: Tensor | None = None) -> None:
        """Writes rows, all of them by default."""
        raise _abstract(self, "update")

    def metadata(self) -> dict[str, Any]:
        """Returns what else is known of it."""
        return {}


class FeatureStore:
    """The base of what has several features."""

    def read(
        self, domain: str, type_name: str | None, feature_name: str, ids: Tensor | None = None
    ) -> Tensor:
        """Returns rows of a feature; see :class:`BasicFeatureStore`."""
        raise _abstract(self, "read")

    def size(self, domain: str, type_name: str | None, feature_name: str) -> torch.Size:
        """Returns the shape of a row."""
        raise _abstract(self, "size")

    def metadata(self, domain: str, type_name: str | None, feature_name: str) -> dict[str, Any]:
        """Returns what else is known of a feature."""
        return {}

    def update(
        self,
        domain: str,
        type_name: str | None,
        feature_name: str,
        value: Tensor,
        ids: Tensor | None = None,
    ) -> None:
        """Writes rows of a feature."""
        raise _abstract(self, "update")

    def keys(self) -> list[tuple[str, str | None, str]]:
        """Returns (domain, type, name) of all features."""
        raise _abstract(self, "keys")


class BasicFeatureStore(FeatureStore):
    """Features by domain (``"node"``, ``"edge"``, ``"graph"``), type and name.

    Args:
        features: by ``(domain, type, name)``; the type is None without types.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> feat = gb.TorchBasedFeature(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> store = gb.BasicFeatureStore({("node", None, "feat"): feat})
        >>> store.read("node", None, "feat", torch.tensor([1])), store.size("node", None, "feat")
        (tensor([[3., 4.]]), torch.Size([2]))
    """

    def __init__(self, features: Mapping[tuple[str, str | None, str], Feature]):
        self._features = dict(features)

    def _feature(self, domain: str, type_name: str | None, feature_name: str) -> Feature:
        key = (domain, type_name, feature_name)
        if key not in self._features:
            raise SmexValueError(
                f"feature store: there is no feature {key}, found {list(self._features)}"
            )
        return self._features[key]

    def read(
        self, domain: str, type_name: str | None, feature_name: str, ids: Tensor | None = None
    ) -> Tensor:
        """Returns rows of a feature, all of them by default.

        Raises:
            SmexValueError: there is no such feature.
        """
        return self._feature(domain, type_name, feature_name).read(ids)

    def size(self, domain: str, type_name: str | None, feature_name: str) -> torch.Size:
        """Returns the shape of a row."""
        return self._feature(domain, type_name, feature_name).size()

    def metadata(self, domain: str, type_name: str | None, feature_name: str) -> dict[str, Any]:
        """Returns what else is known of a feature."""
        return self._feature(domain, type_name, feature_name).metadata()

    def update(
        self,
        domain: str,
        type_name: str | None,
        feature_name: str,
        value: Tensor,
        ids: Tensor | None = None,
    ) -> None:
        """Writes rows of a feature, all of them by default."""
        self._feature(domain, type_name, feature_name).update(value, ids)

    def keys(self) -> list[tuple[str, str | None, str]]:
        """Returns (domain, type, name) of all features."""
        return list(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __repr__(self) -> str:
        inner = textwrap.indent(repr(self._features), "    ")
        return f"{type(self).__name__}(\n{inner}\n)"


class TorchBasedFeature(Feature):
    """A feature that is a tensor, which may lie in a file that is mapped.

    Args:
        torch_feature: ``[num_rows, ...]``.
        metadata: what else is known of it.

    Raises:
        SmexTypeError: it is no tensor.
        SmexValueError: it has rows of no dimensions.
    """

    def __init__(self, torch_feature: Tensor, metadata: dict[str, Any] | None = None):
        if not isinstance(torch_feature, Tensor):
            raise SmexTypeError(
                f"TorchBasedFeature: expected a tensor, found a {type(torch_feature).__name__}"
            )
        if torch_feature.dim() < 2:
            raise SmexValueError(
                "TorchBasedFeature: expected a tensor [num_rows, ...] of at least 2 dimensions, "
                f"found shape {list(torch_feature.shape)}; x.unsqueeze(1) gives each row one number"
            )
        self._tensor = torch_feature.contiguous()
        self._metadata = metadata

    def read(self, ids: Tensor | None = None) -> Tensor:
        """Returns rows, all of them by default, where the ids are."""
        return self._tensor if ids is None else index_select(self._tensor, ids.long())

    def size(self) -> torch.Size:
        """Returns the shape of a row."""
        return self._tensor.shape[1:]

    def update(self, value: Tensor, ids: Tensor | None = None) -> None:
        """Writes rows, all of them by default.

        Raises:
            SmexValueError: there are not as many rows as ids, or of another shape.
        """
        if ids is None:
            self._tensor = value
            return
        if len(ids) != len(value) or value.shape[1:] != self.size():
            raise SmexValueError(
                f"update: expected rows of shape {[len(ids), *self.size()]}, found "
                f"{list(value.shape)}"
            )
        self._tensor[ids.to(self._tensor.device).long()] = value.to(self._tensor)

    def metadata(self) -> dict[str, Any]:
        """Returns what else is known of it."""
        return self._metadata or {}

    def pin_memory_(self) -> TorchBasedFeature:
        """Moves it into pinned memory, and returns the same object; without a GPU it stays."""
        is_here = self._tensor.device.type == "cpu" and not self._tensor.is_pinned()
        if is_here and torch.accelerator.is_available():
            self._tensor = self._tensor.pin_memory()
        return self

    def is_pinned(self) -> bool:
        """Returns whether it is in pinned memory."""
        return self._tensor.is_pinned()

    def to(self, device: torch.device | str) -> TorchBasedFeature:
        """Returns a copy on a device; ``"pinned"``: in pinned memory."""
        other = copy.copy(self)
        other._tensor = self._tensor.pin_memory() if device == "pinned" else self._tensor.to(device)
        return other

    def __repr__(self) -> str:
        inner = textwrap.indent(str(self._tensor), " " * len("    feature=")).strip()
        return f"TorchBasedFeature(\n    feature={inner},\n    metadata={self.metadata()},\n)"


class GPUCachedFeature(Feature):
    """A feature of which the rows that were read last are kept on the GPU.

    Rows are read where the cache is: on the current CUDA device, or where there is none on the CPU,
    which serves tests alone. Gradients do not flow through it.

    Args:
        fallback_feature: has all rows.
        cache_size: for how many rows there is room.

    Raises:
        SmexTypeError: `fallback_feature` is no :class:`Feature`.

    Example:
        >>> import smex.graph.graphbolt as gb
        >>> slow = gb.TorchBasedFeature(torch.arange(10.0).view(5, 2))
        >>> feature = gb.GPUCachedFeature(slow, 3)
        >>> feature.read(torch.tensor([4, 0])).cpu(), feature.read(torch.tensor([4])).cpu()
        (tensor([[8., 9.],
                [0., 1.]]), tensor([[8., 9.]]))
        >>> feature.miss_rate
        0.6666666666666666
    """

    def __init__(self, fallback_feature: Feature, cache_size: int):
        if not isinstance(fallback_feature, Feature):
            raise SmexTypeError(
                "GPUCachedFeature: expected a Feature as fallback_feature, found "
                f"{type(fallback_feature).__name__}"
            )
        self._fallback_feature = fallback_feature
        self.cache_size = cache_size
        one = fallback_feature.read(torch.tensor([0]))
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._cache = RowCache(cache_size, one.shape[1:], one.dtype, device)

    @property
    def miss_rate(self) -> float:
        """Returns the part of the rows that were read from `fallback_feature`."""
        return self._cache.miss_rate

    def read(self, ids: Tensor | None = None) -> Tensor:
        """Returns rows, on the device of the cache; all of them by default, where they are."""
        if ids is None:
            return self._fallback_feature.read()
        values, missing, keys = self._cache.query(ids)
        found = self._fallback_feature.read(keys).to(values)
        values[missing] = found
        self._cache.replace(keys, found)
        return values

    def size(self) -> torch.Size:
        """Returns the shape of a row."""
        return self._fallback_feature.size()

    def update(self, value: Tensor, ids: Tensor | None = None) -> None:
        """Writes rows, all of them by default, here and in `fallback_feature`."""
        self._fallback_feature.update(value, ids)
        if ids is None:
            self._cache.clear()
        else:
            self._cache.replace(ids, value)

    def metadata(self) -> dict[str, Any]:
        """Returns what else is known of it."""
        return self._fallback_feature.metadata()


class TorchBasedFeatureStore(BasicFeatureStore):
    """Features that files have.

    Args:
        feat_data: of each feature domain, type, name, format (``"numpy"`` or ``"torch"``), path,
            and whether it is read into memory or, of NumPy's format, mapped.

    Raises:
        SmexValueError: a format is unknown, or one of torch's is to be mapped.
    """

    def __init__(self, feat_data: Sequence[OnDiskFeatureData]):
        super().__init__(
            {
                (each.domain, each.type, each.name): TorchBasedFeature(
                    read_array(each.path, each.format, each.in_memory, writable=True),
                    each.extra_fields,
                )
                for each in feat_data
            }
        )

    def _all(self) -> list[TorchBasedFeature]:
        return list(self._features.values())  # type: ignore[arg-type]

    def pin_memory_(self) -> TorchBasedFeatureStore:
        """As :meth:`TorchBasedFeature.pin_memory_`, all features."""
        for feature in self._all():
            feature.pin_memory_()
        return self

    def is_pinned(self) -> bool:
        """Returns whether all features are in pinned memory."""
        return all(feature.is_pinned() for feature in self._all())

    def to(self, device: torch.device | str) -> TorchBasedFeatureStore:
        """Returns a copy on a device."""
        other = copy.copy(self)
        other._features = {
            key: feature.to(device)
            for key, feature in zip(self._features, self._all(), strict=True)
        }
        return other


def read_array(path: str, kind: str, in_memory: bool = True, writable: bool = False) -> Tensor:
    """Returns the tensor that a file has; NumPy's files may be mapped."""
    if kind == "numpy":
        if in_memory:
            return torch.as_tensor(np.load(path))
        return torch.as_tensor(np.load(path, mmap_mode="r+" if writable else "c"))
    if kind == "torch" and in_memory:
        found = torch.load(path, weights_only=True)
        assert isinstance(found, Tensor)
        return found
    raise SmexValueError(
        f'"{path}": expected format "numpy", or "torch" with in_memory, found "{kind}"'
        f"{'' if in_memory else ' to be mapped'}"
    )


@functional_datapipe("fetch_feature")
class FeatureFetcher(MiniBatchTransformer):
    """Reads features of what was sampled.

    Args:
        datapipe: the stage before.
        feature_store: has them.
        node_feature_keys: names of nodes' features, by type where there are types.
        edge_feature_keys: the same for edges, by type ``"source:relation:destination"``.
    """

    def __init__(
        self,
        datapipe: Any,
        feature_store: FeatureStore | Mapping[Any, Any],
        node_feature_keys: Any = None,
        edge_feature_keys: Any = None,
    ):
        super().__init__(datapipe, self._read)
        self.feature_store = feature_store
        self.node_feature_keys = node_feature_keys
        self.edge_feature_keys = edge_feature_keys

    def _read(self, batch: MiniBatch) -> MiniBatch:
        nodes = batch.node_ids()
        if self.node_feature_keys and nodes is not None:
            batch.set_node_features(self._features("node", self.node_feature_keys, nodes))
        else:
            batch.set_node_features({})
        layers: list[dict[Any, Tensor]] = []
        for layer in range(batch.num_layers()):
            ids = batch.edge_ids(layer) if self.edge_feature_keys else None
            if isinstance(ids, Mapping):
                ids = {_text(etype): each for etype, each in ids.items()}
            found = None if ids is None else self._features("edge", self.edge_feature_keys, ids)
            layers.append(found or {})
        batch.set_edge_features(layers)
        return batch

    def _features(self, domain: str, keys: Any, ids: Any) -> dict[Any, Tensor]:
        def read(kind: str | None, name: str, rows: Tensor) -> Tensor:
            if isinstance(self.feature_store, FeatureStore):
                return self.feature_store.read(domain, kind, name, rows)
            found: Tensor = self.feature_store[(domain, kind, name)].read(rows)
            return found

        if not isinstance(keys, Mapping):
            return {name: read(None, name, ids) for name in keys}
        return {
            (kind, name): read(kind, name, ids[kind])
            for kind, names in keys.items()
            if kind in ids and ids[kind] is not None
            for name in names
        }


def _text(etype: Any) -> str:
    return etype_tuple_to_str(etype) if isinstance(etype, tuple) else etype
