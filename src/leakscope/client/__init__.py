"""The client: training it, a client of your own, and where it starts from."""

from leakscope.client.training import Client, train

__all__ = ["Client", "train"]
