"""Data sets with DGL's names, and what is needed to make one's own."""

from smex._module_names import also_named as _also_named
from smex.graph.aliases import DATA as _SECOND_NAMES
from smex.graph.data import planetoid as citegrh
from smex.graph.data import utils as utils
from smex.graph.data.adapters import AsGraphPredDataset, AsLinkPredDataset, AsNodePredDataset
from smex.graph.data.arguments import load_data, register_data_args
from smex.graph.data.ba_2motif import BA2MotifDataset
from smex.graph.data.csv_dataset import CSVDataset
from smex.graph.data.dataset import DGLBuiltinDataset, DGLDataset, GraphIndexError
from smex.graph.data.fakenews import FakeNewsDataset
from smex.graph.data.fraud import FraudAmazonDataset, FraudDataset, FraudYelpDataset
from smex.graph.data.geom_gcn import (
    ActorDataset,
    ChameleonDataset,
    CornellDataset,
    SquirrelDataset,
    TexasDataset,
    WisconsinDataset,
)
from smex.graph.data.gin import GINDataset
from smex.graph.data.gnn_benchmark import (
    AmazonCoBuy,
    AmazonCoBuyComputerDataset,
    AmazonCoBuyPhotoDataset,
    Coauthor,
    CoauthorCSDataset,
    CoauthorPhysicsDataset,
    CoraFull,
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
from smex.graph.data.knowledge_graph import FB15k237Dataset, FB15kDataset, WN18Dataset
from smex.graph.data.lrgb import (
    COCOSuperpixelsDataset,
    PeptidesFunctionalDataset,
    PeptidesStructuralDataset,
    VOCSuperpixelsDataset,
)
from smex.graph.data.minigc import MiniGCDataset
from smex.graph.data.molecules import QM9, QM7b, QM7bDataset, QM9Dataset, QM9Edge, QM9EdgeDataset
from smex.graph.data.movielens import MovieLensDataset
from smex.graph.data.ogb import DglGraphPropPredDataset, DglNodePropPredDataset
from smex.graph.data.planetoid import (
    CitationGraphDataset,
    CiteseerGraphDataset,
    CoraBinary,
    CoraGraphDataset,
    PubmedGraphDataset,
)
from smex.graph.data.ppi import LegacyPPIDataset, PPIDataset
from smex.graph.data.rdf import AIFBDataset, AMDataset, BGSDataset, MUTAGDataset
from smex.graph.data.reddit import RedditDataset
from smex.graph.data.saint import FlickrDataset, YelpDataset
from smex.graph.data.sbm import SBMMixture, SBMMixtureDataset
from smex.graph.data.sst import SST, SSTDataset
from smex.graph.data.stored import CLUSTERDataset, PATTERNDataset, ZINCDataset
from smex.graph.data.superpixel import CIFAR10SuperPixelDataset, MNISTSuperPixelDataset
from smex.graph.data.synthetic import (
    BACommunityDataset,
    BAShapeDataset,
    TreeCycleDataset,
    TreeGridDataset,
)
from smex.graph.data.temporal import (
    GDELT,
    ICEWS18,
    BitcoinOTC,
    BitcoinOTCDataset,
    GDELTDataset,
    ICEWS18Dataset,
)
from smex.graph.data.tu import TUDataset
from smex.graph.data.tu_legacy import LegacyTUDataset
from smex.graph.data.unpickle import CompressedRows, Coordinates, load_pickle
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
from smex.graph.data.wikics import WikiCSDataset

__all__ = [
    "GDELT",
    "ICEWS18",
    "QM9",
    "SST",
    "AIFBDataset",
    "AMDataset",
    "ActorDataset",
    "AmazonCoBuy",
    "AmazonCoBuyComputerDataset",
    "AmazonCoBuyPhotoDataset",
    "AmazonRatingsDataset",
    "AsGraphPredDataset",
    "AsLinkPredDataset",
    "AsNodePredDataset",
    "BA2MotifDataset",
    "BACommunityDataset",
    "BAShapeDataset",
    "BGSDataset",
    "BitcoinOTC",
    "BitcoinOTCDataset",
    "CIFAR10SuperPixelDataset",
    "CLUSTERDataset",
    "COCOSuperpixelsDataset",
    "CSVDataset",
    "ChameleonDataset",
    "CitationGraphDataset",
    "CiteseerGraphDataset",
    "Coauthor",
    "CoauthorCSDataset",
    "CoauthorPhysicsDataset",
    "CompressedRows",
    "Coordinates",
    "CoraBinary",
    "CoraFull",
    "CoraFullDataset",
    "CoraGraphDataset",
    "CornellDataset",
    "DGLBuiltinDataset",
    "DGLDataset",
    "DglGraphPropPredDataset",
    "DglNodePropPredDataset",
    "FB15k237Dataset",
    "FB15kDataset",
    "FakeNewsDataset",
    "FlickrDataset",
    "FraudAmazonDataset",
    "FraudDataset",
    "FraudYelpDataset",
    "GDELTDataset",
    "GINDataset",
    "GraphIndexError",
    "ICEWS18Dataset",
    "KarateClub",
    "KarateClubDataset",
    "LegacyPPIDataset",
    "LegacyTUDataset",
    "MNISTSuperPixelDataset",
    "MUTAGDataset",
    "MinesweeperDataset",
    "MiniGCDataset",
    "MovieLensDataset",
    "PATTERNDataset",
    "PPIDataset",
    "PeptidesFunctionalDataset",
    "PeptidesStructuralDataset",
    "PubmedGraphDataset",
    "QM7b",
    "QM7bDataset",
    "QM9Dataset",
    "QM9Edge",
    "QM9EdgeDataset",
    "QuestionsDataset",
    "RedditDataset",
    "RomanEmpireDataset",
    "SBMMixture",
    "SBMMixtureDataset",
    "SSTDataset",
    "SquirrelDataset",
    "Subset",
    "TUDataset",
    "TexasDataset",
    "TolokersDataset",
    "TreeCycleDataset",
    "TreeGridDataset",
    "VOCSuperpixelsDataset",
    "WN18Dataset",
    "WikiCSDataset",
    "WisconsinDataset",
    "YelpDataset",
    "ZINCDataset",
    "add_node_property_split",
    "add_nodepred_split",
    "check_sha1",
    "citegrh",
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

_also_named(__name__, _SECOND_NAMES)
