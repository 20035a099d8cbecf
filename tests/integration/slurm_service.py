"""A Slurm cluster of one node on this machine, of Debian's packages slurm-wlm and munge; it needs root.

    python tests/integration/slurm_service.py FOLDER CPUS     # runs until it is interrupted

`SLURM_CONF=FOLDER/slurm.conf` is all that sbatch, squeue and dask-jobqueue need to find it. The node claims as many
CPUs as it is told to, so that several workers fit on a small machine. Everything is below the folder.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from services import Service, free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
CONFIGURATION = """\
ClusterName=gpuforge
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=8000 State=UNKNOWN
PartitionName=build Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Return why there can be no Slurm here, or an empty string."""
    if os.geteuid():
        return "Slurm's daemons need root"
    absent = [name for name in PROGRAMS if not shutil.which(name, path=f"/usr/sbin:{os.environ['PATH']}")]
    if absent:
        return f"{', '.join(absent)}: not here (apt-get install slurm-wlm munge)"
    return "" if find_spec("dask_jobqueue") else "dask-jobqueue is not here: pip install dask-jobqueue"


@contextmanager
def slurm(folder: Path, cpus: int) -> Iterator[Path]:
    """Run Slurm below a folder, with one node of so many CPUs and MiB; yield the path of slurm.conf."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    controller, node = free_ports(2)
    host = socket.gethostname().partition(".")[0]
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(host=host, controller=controller, node=node, folder=folder, cpus=cpus)
    )
    (folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket"]
    munge += [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "seed", "log")]
    env = {"SLURM_CONF": str(configuration), "PATH": f"/usr/sbin:{os.environ['PATH']}"}
    services = [
        Service(munge, folder / "munged.out", env=env),
        Service(["slurmctld", "-D", "-f", str(configuration)], folder / "slurmctld.out", controller, env),
        Service(["slurmd", "-D", "-f", str(configuration)], folder / "slurmd.out", node, env),
    ]
    with ExitStack() as stack:
        for service in services:
            service.start()
            stack.callback(service.stop)
        stack.callback(_cancel_all, env)
        _await_idle(env)
        yield configuration


def _await_idle(env: dict[str, str]) -> None:
    """Wait until the node takes jobs; raises OSError when it does not."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        seen = _output(["sinfo", "-h", "-o", "%T"], env)
        if seen == "idle":
            return
        time.sleep(0.2)
    msg = f"Slurm's node is {seen or 'unknown'}"
    raise OSError(msg)


def _cancel_all(env: dict[str, str]) -> None:
    """Cancel all jobs and wait until none is left."""
    _output(["scancel", "--full", "-u", "root"], env)
    end = time.monotonic() + 20
    while _output(["squeue", "-h"], env) and time.monotonic() < end:
        time.sleep(0.2)


def _output(argv: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **env})
    return done.stdout.strip()


def main() -> None:
    """Run Slurm until somebody interrupts it."""
    folder, cpus = Path(sys.argv[1]).absolute(), int(sys.argv[2])
    with slurm(folder, cpus) as configuration:
        sys.stderr.write(f"export SLURM_CONF={configuration}\n")
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
