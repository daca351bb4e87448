"""Where private images come from: one file per source, one `Dataset` out of each."""

from leakscope.data.catalogue import DATASETS, DatasetInfo, Form, dataset_info, default_model
from leakscope.data.clients import POOLED, draw_client, held_out
from leakscope.data.dataset import Dataset, Expected, Samples
from leakscope.data.loading import data_root, load, where

__all__ = [
    "DATASETS",
    "POOLED",
    "Dataset",
    "DatasetInfo",
    "Expected",
    "Form",
    "Samples",
    "data_root",
    "dataset_info",
    "default_model",
    "draw_client",
    "held_out",
    "load",
    "where",
]
