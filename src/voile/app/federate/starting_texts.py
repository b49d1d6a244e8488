"""Texts of the files that a new federation begins with, for people to read and to change."""

from __future__ import annotations

from typing import Final

from voile.app.federate.config import AssumedServer

FEDERATION: Final = """\
# A federation: a model is trained across parties whose rows stay where they are.
# This file is public, and the same for everybody: it is what all parties agree on. Change it, and
# it is another agreement. Run it with: voile federate {file}
# `name` is the label of the federation and of the version of its data. Keys and logs carry it: to
# change it, start again in another folder (voile init ... --name NAME --output FOLDER).
name = {name}
pipeline = {pipeline}  # {others}
schema = {schema}
{secure}secure = true  # the server learns sums of updates only, no single one{noise}
server_key = {server_key}  # that the server signs its log with, and its messages of a secure sum

[privacy]  # promised to each row of each party, for everything that leaves
epsilon = {epsilon}
delta = {delta}  # well below one over the number of rows of a party
relation = {relation}  # "zero-out", or "replace one" at about twice the cost
# members_count = 0.1  # of epsilon, for one count by each party: voile assess --count-members
# records_per_person = 1  # at most so many rows of one person, at all parties together: declared,
# and checked by nobody. Left out, the report says what is promised with 2 and with 5

{training}
{secure}[secure_sum]  # with `secure = true`: against whom
{secure}server = {server}  # or {other_server}
# colluders = 1  # how many parties may work for it
# threshold = 3  # how many survive a round at least; left out: as few as these allow
{parties}"""
OTHERS: Final = """\
or "logistic regression", "trusted", "shapley-guided noise"
# "full private explainer", as published; without labels: "aggregate", "recommender", "images\""""
NOISE_STAYS: Final = "; noise stays as it is"
STATISTICS: Final = "statistics"
OR_NETWORKS: Final = """\
an additive model from three sums of whole numbers; or a network:
# "private explainer", "full private explainer", "logistic regression", "trusted",
# "shapley-guided noise"; without labels: "aggregate", "recommender", "images\""""
NOISE_SHARED: Final = """, and
# parties share the noise: a sum has little more than that of one table with all rows"""
ROUNDS: Final = """\
[training]
rounds = {rounds}  # of each stage
"""
TRAINING: Final = """\
# participations = 10  # in how many of them a party takes part at most
# hidden = [64, 64]  # widths of the hidden layers
# aggregator = "median"  # withstands faulty parties; "mean" if left out
"""
PARTY: Final = """
[[parties]]
name = {name}
rows = {rows}  # how many rows it has; public
key = {key}  # that its log is signed with
"""
SERVER: Final = """\
# What belongs to the server of a federation.
output = {output}  # folder of the run; what may be shown lies in its folder `artefact`
{reference}{steps}
# Rows that are not protected, for the figures of the report: at least one file.
{held_out}
{superlink}"""
REFERENCE: Final = (
    '# reference = "reference.csv"  # public rows to compare with; left out: drawn from the schema'
)
STEPS: Final = "# distillation_steps = 3000  # of the fast explainer, which touches no data"
HELD_OUT: Final = """\
[[held_out]]
name = {name}
data = {data}
"""
NODE: Final = """\
# What stays with this party: nobody else needs to see it. Its ledger, its log and its keys lie
# beside this file; whoever has `audit.key` can sign in its name.
name = {name}
{data}  # CSV or Parquet
{federation}
[accepts]  # the most that it promises to each of its rows, whatever the others agree on
epsilon = {epsilon}
delta = {delta}
# agreement = "..."  # the digest of the one agreement that it takes part in
# columns = ["..."]  # if it is enough to protect these columns, and all others may become public;
# then data must be Parquet

{superlink}"""
HANDED_OVER: Final = """\
# Its rows were handed over in Python. To go on with `voile federate`, name a file with them:
# data = "rows.csv"\
"""
SERVERS: Final = {
    AssumedServer.CURIOUS: "it follows the protocol",
    AssumedServer.ACTIVE: "it may do anything",
}
OWN_COPY: Final = """\
# federation = "federation.toml"  # its own copy, for a party on a machine of its own
"""
NODE_LINK: Final = """\
# [superlink]  # how it reaches the server from a machine of its own: voile node node.toml
# address = "superlink.example:9092"  # host and port, as its certificate names it
# root_certificates = "ca.crt"  # of whoever signed that certificate
# key = "flower.key"  # that the SuperLink knows it by; made if it is missing
"""
SERVER_LINK: Final = """\
# [superlink]  # for parties on other machines: voile federate ... --superlink HOST:PORT
# root_certificates = "ca.crt"  # of whoever signed the SuperLink's certificate
# secret = "secret"  # that the SuperLink was started with (--superexec-auth-secret-file)
# deadline = 3600  # seconds for one answer; left out: 600, or three times the slowest so far
"""
