"""A Slurm of one node on this machine, from Debian's packages: munged, slurmctld and slurmd, on loopback alone.

All its files lie in one folder, none of whose parents may be writable by others unless sticky. The node claims more
CPUs and memory than the machine has, so that requests made for real nodes are granted; and a GPU that the scheduler
counts, but behind which there is no device. There is no accounting database.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
CONF = """\
ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={state}/munge/socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd.pid
SlurmctldLogFile={state}/slurmctld.log
SlurmdLogFile={state}/slurmd.log
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/slurmd
# No cgroups: memory is sampled, and a job over its request is killed.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,defer_batch
# Without a database, finished jobs are asked for by squeue and scontrol, which must remember them.
MinJobAge=3600
ReturnToService=2
KillWait=2
CompleteWait=0
AccountingStorageType=accounting_storage/none
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 SocketsPerBoard=1 CoresPerSocket=8 RealMemory=64000 Gres=gpu:1
PartitionName=main Nodes={host} Default=YES MaxTime=1-00:00:00 DefMemPerCPU=512 State=UP OverSubscribe=NO
"""
GRES = "AutoDetect=off\nNodeName={host} Name=gpu File=/dev/null\n"
# The executor drops every SLURM_ variable, SLURM_CONF too, before it calls srun inside a job.
SRUN = '#!/bin/sh\nSLURM_CONF={state}/slurm.conf exec {srun} "$@"\n'
# When slurmctld is slow to answer, the executor turns to sacct if it finds it, and waits for ever: it has no database.
WHICH = '#!/bin/sh\n[ "$1" = sacct ] && exit 1\nexec {which} "$@"\n'


class OneNode:
    """``environment`` is what a client needs to reach the running cluster."""

    def __init__(self, state: Path):
        self.state = state
        search = f"{state}/bin:{os.environ['PATH']}:/usr/sbin"
        self.environment = {**os.environ, "SLURM_CONF": f"{state}/slurm.conf", "PATH": search}
        # Jobs have more threads than the machine has cores; those that wait should sleep, not spin.
        self.environment["OMP_WAIT_POLICY"] = "PASSIVE"

    def start(self) -> None:
        """Start the daemons and wait until the node is idle; RuntimeError, with their logs' errors, if it never is."""
        for name in ("munge", "ctld", "slurmd", "bin"):
            (self.state / name).mkdir(parents=True)
        self.state.chmod(0o755)
        (self.state / "munge").chmod(0o711)
        facts = {"host": socket.gethostname().split(".")[0], "state": self.state, "ports": _free_ports(2)}
        (self.state / "slurm.conf").write_text(CONF.format(**facts))
        (self.state / "gres.conf").write_text(GRES.format(**facts))
        for name, script in (("srun", SRUN), ("which", WHICH)):
            wrapper = self.state / "bin" / name
            wrapper.write_text(script.format(state=self.state, **{name: shutil.which(name)}))
            wrapper.chmod(0o755)
        key = self.state / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        munge = {"key-file": "munge/key", "socket": "munge/socket", "seed-file": "munge/seed"}
        munge |= {"pid-file": "munged.pid", "log-file": "munged.log"}
        self.call("munged", *(f"--{name}={self.state}/{path}" for name, path in munge.items()))
        self.call("slurmctld", "-f", f"{self.state}/slurm.conf")
        self.call("slurmd", "-f", f"{self.state}/slurm.conf", "-N", facts["host"])
        deadline = time.monotonic() + 30
        while self.call("sinfo", "-h", "-o", "%t", check=False) != "idle":
            if time.monotonic() > deadline:
                raise RuntimeError(f"the node did not become idle: {self._errors()}")
            time.sleep(0.5)

    def stop(self) -> None:
        """Cancel all jobs and end the daemons that ``start`` started."""
        jobs = self.call("squeue", "-h", "-t", "PD,R,CG", "-o", "%A", check=False).split()
        if jobs:
            self.call("scancel", *jobs, check=False)
            time.sleep(3)
        for name in ("slurmd", "slurmctld", "munged"):
            file = self.state / f"{name}.pid"
            if file.is_file() and name in _program(pid := int(file.read_text())):
                _end(pid)

    def call(self, *command: str, check: bool = True) -> str:
        """What a client prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr.strip()} {self._errors()}")
        return done.stdout.strip()

    def jobs(self) -> list[dict[str, str]]:
        """The facts that Slurm shows of every job so far, in the order of submission."""
        lines = self.call("scontrol", "show", "job", "-o").splitlines()
        jobs = [dict(field.split("=", 1) for field in line.split() if "=" in field) for line in lines]
        return sorted((job for job in jobs if "JobId" in job), key=lambda job: int(job["JobId"]))

    def _errors(self) -> str:
        logs = [path.read_text(errors="replace").splitlines() for path in sorted(self.state.glob("*.log"))]
        return " | ".join(line for log in logs for line in log if "error" in line or "fatal" in line)


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _program(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


def _end(pid: int) -> None:
    """End one process: asked first, then killed, for a slurmd without its slurmctld does not listen."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.kill(pid, number)
        for _ in range(50):
            if not _program(pid):
                return
            time.sleep(0.1)
