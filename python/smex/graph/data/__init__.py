"""Data sets with DGL's names, and what is needed to make one's own."""

from smex.graph.data import utils as utils
from smex.graph.data.adapters import AsGraphPredDataset, AsLinkPredDataset, AsNodePredDataset
from smex.graph.data.dataset import DGLBuiltinDataset, DGLDataset, GraphIndexError
from smex.graph.data.gin import GINDataset
from smex.graph.data.karate import KarateClub, KarateClubDataset
from smex.graph.data.ogb import DglGraphPropPredDataset, DglNodePropPredDataset
from smex.graph.data.planetoid import (
    CitationGraphDataset,
    CiteseerGraphDataset,
    CoraGraphDataset,
    PubmedGraphDataset,
)
from smex.graph.data.ppi import PPIDataset
from smex.graph.data.reddit import RedditDataset
from smex.graph.data.sst import SST, SSTDataset
from smex.graph.data.synthetic import (
    BACommunityDataset,
    BAShapeDataset,
    MiniGCDataset,
    SBMMixtureDataset,
    TreeCycleDataset,
    TreeGridDataset,
)
from smex.graph.data.tu import TUDataset
from smex.graph.data.unpickle import CompressedRows, load_pickle
from smex.graph.data.utils import Subset, load_graphs, save_graphs, split_dataset

__all__ = [
    "SST",
    "AsGraphPredDataset",
    "AsLinkPredDataset",
    "AsNodePredDataset",
    "BACommunityDataset",
    "BAShapeDataset",
    "CitationGraphDataset",
    "CiteseerGraphDataset",
    "CompressedRows",
    "CoraGraphDataset",
    "DGLBuiltinDataset",
    "DGLDataset",
    "DglGraphPropPredDataset",
    "DglNodePropPredDataset",
    "GINDataset",
    "GraphIndexError",
    "KarateClub",
    "KarateClubDataset",
    "MiniGCDataset",
    "PPIDataset",
    "PubmedGraphDataset",
    "RedditDataset",
    "SBMMixtureDataset",
    "SSTDataset",
    "Subset",
    "TUDataset",
    "TreeCycleDataset",
    "TreeGridDataset",
    "load_graphs",
    "load_pickle",
    "save_graphs",
    "split_dataset",
    "utils",
]
