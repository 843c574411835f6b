"""Data sets with DGL's names, and what is needed to make one's own."""

from smex.graph.data import utils as utils
from smex.graph.data.adapters import AsGraphPredDataset, AsLinkPredDataset, AsNodePredDataset
from smex.graph.data.arguments import load_data, register_data_args
from smex.graph.data.csv_dataset import CSVDataset
from smex.graph.data.dataset import DGLBuiltinDataset, DGLDataset, GraphIndexError
from smex.graph.data.gin import GINDataset
from smex.graph.data.gnn_benchmark import (
    AmazonCoBuyComputerDataset,
    AmazonCoBuyPhotoDataset,
    CoauthorCSDataset,
    CoauthorPhysicsDataset,
    CoraFullDataset,
)
from smex.graph.data.heterophilous import (
    AmazonRatingsDataset,
    MinesweeperDataset,
    QuestionsDataset,
    RomanEmpireDataset,
    TolokersDataset,
)
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
from smex.graph.data.utils import (
    Subset,
    add_node_property_split,
    add_nodepred_split,
    check_sha1,
    download,
    extract_archive,
    get_download_dir,
    idx2mask,
    load_graphs,
    load_labels,
    load_tensors,
    loadtxt,
    mask_nodes_by_property,
    save_graphs,
    save_tensors,
    split_dataset,
)

__all__ = [
    "SST",
    "AmazonCoBuyComputerDataset",
    "AmazonCoBuyPhotoDataset",
    "AmazonRatingsDataset",
    "AsGraphPredDataset",
    "AsLinkPredDataset",
    "AsNodePredDataset",
    "BACommunityDataset",
    "BAShapeDataset",
    "CSVDataset",
    "CitationGraphDataset",
    "CiteseerGraphDataset",
    "CoauthorCSDataset",
    "CoauthorPhysicsDataset",
    "CompressedRows",
    "CoraFullDataset",
    "CoraGraphDataset",
    "DGLBuiltinDataset",
    "DGLDataset",
    "DglGraphPropPredDataset",
    "DglNodePropPredDataset",
    "GINDataset",
    "GraphIndexError",
    "KarateClub",
    "KarateClubDataset",
    "MinesweeperDataset",
    "MiniGCDataset",
    "PPIDataset",
    "PubmedGraphDataset",
    "QuestionsDataset",
    "RedditDataset",
    "RomanEmpireDataset",
    "SBMMixtureDataset",
    "SSTDataset",
    "Subset",
    "TUDataset",
    "TolokersDataset",
    "TreeCycleDataset",
    "TreeGridDataset",
    "add_node_property_split",
    "add_nodepred_split",
    "check_sha1",
    "download",
    "extract_archive",
    "get_download_dir",
    "idx2mask",
    "load_data",
    "load_graphs",
    "load_labels",
    "load_pickle",
    "load_tensors",
    "loadtxt",
    "mask_nodes_by_property",
    "register_data_args",
    "save_graphs",
    "save_tensors",
    "split_dataset",
    "utils",
]
