"""The values that other codebases would print for your predictions, next to the exact values.

A protocol is data: it names the queries, the candidates, the order and the average. This room
imports `ranking`, `scoring` and `display`; begin with `protocol.Protocol`.
"""

from nextloc_metrics.protocols.auditing import Audit, Finding, audit
from nextloc_metrics.protocols.codebases import (
    agentmove,
    cslsl,
    dchl,
    deepmove,
    flashback,
    getnext,
    graph_flashback,
    hstu,
    libcity,
    llm_mob,
    lstpm,
    massive_steps,
    mie_lab,
    recbole,
    rotan,
    sasrec,
    stan,
    sthgcn,
)
from nextloc_metrics.protocols.measures import Metric
from nextloc_metrics.protocols.protocol import Protocol, Source

__all__ = [
    "Audit",
    "Finding",
    "Metric",
    "Protocol",
    "Source",
    "agentmove",
    "audit",
    "cslsl",
    "dchl",
    "deepmove",
    "flashback",
    "getnext",
    "graph_flashback",
    "hstu",
    "libcity",
    "llm_mob",
    "lstpm",
    "massive_steps",
    "mie_lab",
    "recbole",
    "rotan",
    "sasrec",
    "stan",
    "sthgcn",
]
