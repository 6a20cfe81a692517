"""What other codebases would print for these predictions, and the exact values beside it.

A protocol is data: which queries, which candidates, which order, which average.
"""

from nextloc_metrics.protocols.auditing import Audit, Finding, audit
from nextloc_metrics.protocols.further import (
    agentmove,
    cslsl,
    hstu,
    llm_mob,
    lstpm,
    massive_steps,
    stan,
    sthgcn,
)
from nextloc_metrics.protocols.measures import Metric
from nextloc_metrics.protocols.profiles import (
    dchl,
    deepmove,
    flashback,
    getnext,
    graph_flashback,
    libcity,
    mie_lab,
    recbole,
    rotan,
    sasrec,
)
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
