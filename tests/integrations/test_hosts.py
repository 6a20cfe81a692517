"""Two hosts: network namespaces with addresses of their own, joined by a cable of the kernel.

Nothing leaves them: the cable ends in the two namespaces, which end with their processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Run inside a first namespace: makes a second one, joins them, and runs torchrun in both.
HOSTS = """
set -e
ip link set lo up
unshare --net sleep 100 & other=$!
in_other="nsenter --net --target $other"
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
ip link add cable0 type veth peer name cable1 netns $other
ip address add 10.77.0.1/24 dev cable0
ip link set cable0 up
$in_other ip address add 10.77.0.2/24 dev cable1
$in_other ip link set cable1 up
$in_other ip link set lo up
[ "$1" = probe ] && { kill $other; exit 0; }
GLOO_SOCKET_IFNAME=cable1 $in_other "$@" --node-rank 1 --local-addr 10.77.0.2 "$program" \
    > "$folder/1.txt" 2> "$folder/1.log" & second=$!
GLOO_SOCKET_IFNAME=cable0 "$@" --node-rank 0 --local-addr 10.77.0.1 "$program" \
    > "$folder/0.txt" 2> "$folder/0.log"
wait $second
kill $other
"""

pytestmark = pytest.mark.extra


def _namespace() -> list[str]:
    """The command that runs something in a network namespace of its own, or a skip."""
    missing = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}, to make network namespaces")
    reasons = []
    for options in ([], ["--user", "--map-root-user"]):
        command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", *options]
        made = subprocess.run(
            [*command, "bash", "-c", HOSTS, "hosts", "probe"], capture_output=True, encoding="utf-8"
        )
        if made.returncode == 0:
            return command
        reasons.append(made.stderr.strip())
    pytest.skip(f"needs the right to make network namespaces: {'; '.join(reasons)}")


def test_two_hosts_equal_one_process(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`torchrun --nnodes 2` between two addresses prints what one process prints.

    Starting Python five times takes most of it.
    """
    namespace = _namespace()
    import ddp_evaluation

    ddp_evaluation.main()
    alone = capsys.readouterr().out
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    options = ["--nproc-per-node", "1", "--master-addr", "10.77.0.1", "--master-port", "29500"]
    hosts = subprocess.Popen(
        [*namespace, "bash", "-c", HOSTS, "hosts", *torchrun, *options],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "folder": str(tmp_path),
            "program": ddp_evaluation.__file__,
        },
        start_new_session=True,
    )
    try:
        returned = hosts.wait(timeout=600)
    finally:
        if hosts.poll() is None:
            os.killpg(hosts.pid, signal.SIGKILL)
    logs = "\n".join(path.read_text(encoding="utf-8") for path in sorted(tmp_path.glob("*.log")))
    assert returned == 0, logs
    assert (tmp_path / "0.txt").read_text(encoding="utf-8") == alone
    assert (tmp_path / "1.txt").read_text(encoding="utf-8") == ""  # the first process alone prints
