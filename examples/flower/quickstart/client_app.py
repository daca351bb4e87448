"""The client: trains on its own images and sends the weights back."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from leakscope.integrations.flower import LeakageRecorder
from quickstart.task import MEAN, STD, Net, load_data, load_images
from quickstart.task import test as test_fn
from quickstart.task import train as train_fn


def private_images(context: Context):
    """For scoring, on the client's own machine only: what it holds, and images of others to tell it from."""
    path, partition = context.run_config["data"], context.node_config["partition-id"]
    others = torch.cat([load_images(path, other)[0] for other in range(2, 60)])
    return (*load_images(path, partition), others)


app = ClientApp(mods=[LeakageRecorder("updates", normalisation=(MEAN, STD), truth=private_images)])


def local_data(context: Context):
    config = context.run_config
    return load_data(config["data"], context.node_config["partition-id"], config["batch-size"])


@app.train()
def train(message: Message, context: Context) -> Message:
    model, loader = Net(), local_data(context)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    torch.manual_seed(context.node_config["partition-id"])
    loss = train_fn(model, loader, context.run_config["local-epochs"], message.content["config"]["lr"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    model, loader = Net(), local_data(context)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    metrics = MetricRecord({"accuracy": test_fn(model, loader), "num-examples": len(loader.dataset)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
