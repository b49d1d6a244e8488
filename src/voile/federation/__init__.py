"""Training across parties that cannot share data.

Say what is trained:
    a `Task` is what a client does with global arrays and its rows (`Fitted` is what comes of it);
    a `Stage` adds rounds, clients a round, a cap and an `Aggregator`: `FedAvg`, `CoordinateMedian`,
    `TrimmedMean`, `Krum` (`Needs` tells what each has to see; `SumAggregator` those that need no
    single update; they combine a `Contribution` of each client).

Say who takes part:
    a `Client` has its own rows, books, disk and randomness (`FreshCiphers`, `SeededSources` in
    tests; both are `Sources`). It takes an `Instruction`, gives an `Update`, and accepts nothing
    else from a server. Whatever does the same is a `Participant`.

Run it:
    an `Engine`: `InProcess` (`Asking` sets deadline and threads), which gives a `StageResult`
    (with every `ClientError`) and tells a `Progress` what can be `Seen`. `Unprotected` rows are the
    only ones that exact figures are computed on.

Keep the books:
    a client's `ParticipationGuard` is asked before each `Participation` and gives a `Booking`; the
    server's `RoundLog` is told each `RoundReport` with the `Outcome` of every client; `InMemory`
    and `NoRecorder` are both. The history is a list of `HistoryRow` (`write_history`,
    `read_history`, `without_times`, `charged`, `unbounded`, `most_spent`).

`Arrays` are float32 arrays by name (`digest_of_arrays`).
"""

from voile.federation.aggregators import (
    Aggregator,
    Contribution,
    CoordinateMedian,
    FedAvg,
    Krum,
    Needs,
    SumAggregator,
    TrimmedMean,
)
from voile.federation.arrays import Arrays, digest_of_arrays
from voile.federation.asking import Asking
from voile.federation.client import Client, Participant
from voile.federation.engine import ClientError, Engine, InProcess, StageResult
from voile.federation.history import (
    HistoryRow,
    charged,
    most_spent,
    read_history,
    unbounded,
    without_times,
    write_history,
)
from voile.federation.messages import Instruction, Update
from voile.federation.progress import Progress, Seen
from voile.federation.randomness import FreshCiphers, SeededSources, Sources
from voile.federation.recorder import (
    Booking,
    InMemory,
    NoRecorder,
    Outcome,
    Participation,
    ParticipationGuard,
    RoundLog,
    RoundReport,
)
from voile.federation.stage import Stage
from voile.federation.task import Fitted, Task, Unprotected

__all__ = [
    "Aggregator",
    "Arrays",
    "Asking",
    "Booking",
    "Client",
    "ClientError",
    "Contribution",
    "CoordinateMedian",
    "Engine",
    "FedAvg",
    "Fitted",
    "FreshCiphers",
    "HistoryRow",
    "InMemory",
    "InProcess",
    "Instruction",
    "Krum",
    "Needs",
    "NoRecorder",
    "Outcome",
    "Participant",
    "Participation",
    "ParticipationGuard",
    "Progress",
    "RoundLog",
    "RoundReport",
    "SeededSources",
    "Seen",
    "Sources",
    "Stage",
    "StageResult",
    "SumAggregator",
    "Task",
    "TrimmedMean",
    "Unprotected",
    "Update",
    "charged",
    "digest_of_arrays",
    "most_spent",
    "read_history",
    "unbounded",
    "without_times",
    "write_history",
]
