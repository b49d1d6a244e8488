"""The client of the bare app."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from .arithmetic import change

app = ClientApp()


@app.train()
def train(message: Message, _: Context) -> Message:
    weights = message.content.array_records["arrays"]["w"].numpy().astype(np.float32)
    record = ArrayRecord({"w": Array(change(weights))})
    return Message(RecordDict({"arrays": record}), reply_to=message)
