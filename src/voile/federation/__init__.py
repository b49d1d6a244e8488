"""The runtime of a federation: training across parties that cannot share data.

Say what is trained:
    a `Task` is what a client does with global arrays and its rows (`FitResult` is what comes of
    it); a `Stage` adds rounds, clients a round, a cap and a `RoundProtocol`: a `PlainRound` with
    any `Aggregator`. Those that see the weighted sum alone are a `SumAggregator` (`FedAvg`,
    `FedAdam`, `FedYogi`), those that see a `Contribution` of each client an `UpdateAggregator`
    (`CoordinateMedian`, `TrimmedMean`, `Krum`, `CentredClipping`); both give `CombinedUpdate`.

Say who takes part:
    a `Node` handles messages: an `Instruction` is answered with an `Update` by its `Client`, which
    has its own rows, books, disk and randomness (`FreshCiphers`, `SeededSources` in tests; both are
    `Sources`); before the first `Joining` with `Joined`, after the last `Closing` with `Closed`. It
    accepts nothing else from a server.

Add up in secret:
    a `SecureSum` is the round protocol that shows a server sums only
    (`voile.federation.secure_aggregation`), and takes a `SumAggregator` alone. A node takes part as
    a `SecureMember`, which remembers its attempts (`AttemptsOnDisk`) and the signed chain of rounds
    that it was shown (a `ChainGuard`; each is an `AnnouncedRound`; `KeptRounds`). It is asked with
    a `SecureInstruction` and answers `Advertised`.

Run it:
    `Rounds` is the loop, over any `Transport`: `Threads` in this process. Its `StageResult` has
    every `ClientError`; a `Progress` is told what happens (`ProgressEvent`). `Unprotected` rows are
    the only ones that exact figures are computed on. `run_pipeline` runs all stages of a
    `Pipeline`; `is_finished` says whether that was done.

Keep the books:
    a client's `ParticipationGuard` is asked before each `Participation` and gives a `Booking`
    (`CountingGuard`, `NoGuard`); the server's `RoundLog` is told each `RoundReport` with the
    `Outcome` of every client (`NoRoundLog`). The history is a list of `HistoryRow`
    (`write_history`, `read_history`, `without_times`, `charged`, `unbounded`, `most_spent`).

`Arrays` are arrays by name, of float32 or of whole numbers in int64, which a `WholeSum` adds up
exactly (`digest_of_arrays`). What is trained with all this lives in
`voile.pipelines`.
"""

from voile.federation.aggregators import (
    Aggregator,
    CentredClipping,
    CombinedUpdate,
    Contribution,
    CoordinateMedian,
    FedAdam,
    FedAvg,
    FedYogi,
    Krum,
    LevelAvg,
    SumAggregator,
    TrimmedMean,
    UpdateAggregator,
    WholeSum,
)
from voile.federation.arrays import Arrays, digest_of_arrays
from voile.federation.chain import AnnouncedRound, ChainGuard, KeptRounds
from voile.federation.client import (
    Booking,
    Client,
    CountingGuard,
    FreshCiphers,
    NoGuard,
    Participation,
    ParticipationGuard,
    SeededSources,
    Sources,
)
from voile.federation.history import (
    HistoryRow,
    charged,
    most_spent,
    read_history,
    unbounded,
    without_times,
    write_history,
)
from voile.federation.messages import (
    Advertised,
    Closed,
    Closing,
    Instruction,
    Joined,
    Joining,
    SecureInstruction,
    Update,
)
from voile.federation.node import AttemptsOnDisk, Node, SecureMember
from voile.federation.pipeline import Pipeline, is_finished, run_pipeline
from voile.federation.progress import Progress, ProgressEvent
from voile.federation.round_log import NoRoundLog, Outcome, RoundLog, RoundReport
from voile.federation.round_protocol import PlainRound, RoundProtocol
from voile.federation.rounds import ClientError, Rounds, StageResult
from voile.federation.secure_sum import SecureSum
from voile.federation.stage import Stage
from voile.federation.task import FitResult, Task, Unprotected
from voile.federation.transport import Threads, Transport

__all__ = [
    "Advertised",
    "Aggregator",
    "AnnouncedRound",
    "Arrays",
    "AttemptsOnDisk",
    "Booking",
    "CentredClipping",
    "ChainGuard",
    "Client",
    "ClientError",
    "Closed",
    "Closing",
    "CombinedUpdate",
    "Contribution",
    "CoordinateMedian",
    "CountingGuard",
    "FedAdam",
    "FedAvg",
    "FedYogi",
    "FitResult",
    "FreshCiphers",
    "HistoryRow",
    "Instruction",
    "Joined",
    "Joining",
    "KeptRounds",
    "Krum",
    "LevelAvg",
    "NoGuard",
    "NoRoundLog",
    "Node",
    "Outcome",
    "Participation",
    "ParticipationGuard",
    "Pipeline",
    "PlainRound",
    "Progress",
    "ProgressEvent",
    "RoundLog",
    "RoundProtocol",
    "RoundReport",
    "Rounds",
    "SecureInstruction",
    "SecureMember",
    "SecureSum",
    "SeededSources",
    "Sources",
    "Stage",
    "StageResult",
    "SumAggregator",
    "Task",
    "Threads",
    "Transport",
    "TrimmedMean",
    "Unprotected",
    "Update",
    "UpdateAggregator",
    "WholeSum",
    "charged",
    "digest_of_arrays",
    "is_finished",
    "most_spent",
    "read_history",
    "run_pipeline",
    "unbounded",
    "without_times",
    "write_history",
]
