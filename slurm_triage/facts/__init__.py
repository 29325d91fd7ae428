"""Facts of one attempt: what the evidence says, three-valued, by topic.

`Job` is what a rule gets. One file per topic; a topic is built the first time a rule asks for it.
"""

from __future__ import annotations

from slurm_triage.attempts import Attempt
from slurm_triage.facts._kernel import Kernel
from slurm_triage.facts._once import once
from slurm_triage.facts._place import Place
from slurm_triage.facts.accounting import Accounting
from slurm_triage.facts.cancel import Cancel
from slurm_triage.facts.distributed import Distributed
from slurm_triage.facts.exits import Exits
from slurm_triage.facts.first_words import FirstWords
from slurm_triage.facts.gpu import Gpu
from slurm_triage.facts.gpu_memory import GpuMemory
from slurm_triage.facts.host_hardware import HostHardware
from slurm_triage.facts.launch import Launch
from slurm_triage.facts.limits import Limits
from slurm_triage.facts.log import Log
from slurm_triage.facts.machine import Machine
from slurm_triage.facts.memory import Memory
from slurm_triage.facts.network import Network
from slurm_triage.facts.node import NodeFacts
from slurm_triage.facts.outcome import Outcome
from slurm_triage.facts.pods import Pods
from slurm_triage.facts.program import Program
from slurm_triage.facts.proof import Proof
from slurm_triage.facts.ranks import Ranks
from slurm_triage.facts.scheduling import Scheduling
from slurm_triage.facts.site import Site
from slurm_triage.facts.stack import Stack
from slurm_triage.facts.storage import Storage
from slurm_triage.facts.telling import Telling


class Job:
    """The facts of one attempt. Every topic is computed once, on first use."""

    def __init__(self, attempt: Attempt) -> None:
        """`attempt` is the evidence; nothing is read here."""
        self.attempt = attempt

    @once
    def accounting(self) -> Accounting:
        """State, steps, times as accounting (or the controller) tells them."""
        return Accounting(self.attempt)

    @once
    def place(self) -> Place:
        """Nodes and time of the attempt, against which lines of shared logs are held."""
        return Place(self.attempt, self.accounting)

    @once
    def limits(self) -> Limits:
        """KillWait, GraceTime, time and memory limits in force."""
        return Limits(self.attempt, self.accounting)

    @once
    def log(self) -> Log:
        """The job's own output."""
        return Log(self.attempt)

    @once
    def exits(self) -> Exits:
        """Exit codes and deaths of the batch script, steps and tasks."""
        return Exits(self.attempt, self.accounting, self.log, self.place)

    @once
    def ranks(self) -> Ranks:
        """Which rank failed first, and which deaths are only its echo."""
        return Ranks(self.attempt, self.accounting, self.exits)

    @once
    def memory(self) -> Memory:
        """OOM kills: whose limit, which victim."""
        return Memory(self.attempt, self.accounting, self.exits, self.log, self.place)

    @once
    def scheduling(self) -> Scheduling:
        """Preemption, time limit, deadline, requeue, suspension."""
        return Scheduling(self.attempt, self.accounting, self.limits, self.log)

    @once
    def cancel(self) -> Cancel:
        """Who cancelled or signalled the job through Slurm."""
        return Cancel(self.attempt, self.accounting, self.exits, self.ranks, self.log)

    @once
    def program(self) -> Program:
        """Whether the program failed by itself, and how."""
        return Program(self.attempt, self.accounting, self.exits, self.ranks, self.cancel, self.log)

    @once
    def node(self) -> NodeFacts:
        """Nodes lost, drained, rebooted."""
        return NodeFacts(self.attempt, self.accounting, self.place)

    @once
    def launch(self) -> Launch:
        """Whether prolog, output files, working directory and programs could be set up."""
        return Launch(self.attempt, self.accounting, self.exits, self.log, self.place)

    @once
    def outcome(self) -> Outcome:
        """Whether a good state hides anything."""
        return Outcome(self.accounting, self.scheduling, self.cancel, self.log)

    @once
    def telling(self) -> Telling:
        """Which of the errors in the job's output counts."""
        return Telling(self.accounting, self.log, self.program)

    @once
    def first_words(self) -> FirstWords:
        """Which rank failed first by what was printed, where no wait status tells."""
        return FirstWords(self.accounting, self.exits, self.log, self.telling)

    @once
    def kernel(self) -> Kernel:
        """Kernel lines, placed in the job's time and nodes."""
        return Kernel(self.attempt, self.accounting, self.log, self.telling)

    @once
    def proof(self) -> Proof:
        """When what is said about the end proves it: the last act, and nothing else that was read speaks against it."""
        return Proof(
            self.attempt, self.log, self.telling, self.memory, self.scheduling, self.cancel, self.node, self.kernel
        )

    @once
    def gpu(self) -> Gpu:
        """GPU errors: Xids, SXids, fabric."""
        return Gpu(self.log, self.exits, self.telling, self.kernel, self.limits)

    @once
    def gpu_memory(self) -> GpuMemory:
        """What a refused allocation on the GPU says about its memory."""
        return GpuMemory(self.log)

    @once
    def host(self) -> HostHardware:
        """Memory and PCIe errors of the host."""
        return HostHardware(self.attempt, self.log, self.exits, self.node, self.kernel)

    @once
    def machine(self) -> Machine:
        """What machines the nodes are, and what was measured on them after the end."""
        return Machine(self.attempt, self.place)

    @once
    def stack(self) -> Stack:
        """The software stack that did the work, for advice that fits."""
        return Stack(self.attempt, self.accounting, self.log, self.memory, self.program)

    @once
    def storage(self) -> Storage:
        """File systems: full, over quota, stale, gone."""
        return Storage(self.log, self.telling, self.kernel, self.machine)

    @once
    def network(self) -> Network:
        """Links, adapters and failed transfers."""
        return Network(self.log, self.telling, self.kernel)

    @once
    def distributed(self) -> Distributed:
        """What the ranks say of each other."""
        return Distributed(self.log, self.exits, self.telling)

    @once
    def pods(self) -> Pods:
        """What Kubernetes did to a pod."""
        return Pods(self.attempt, self.log, self.place, self.node)

    @once
    def site(self) -> Site:
        """What rules of a site ask: lines of signatures by their ids."""
        return Site(self.attempt, self.place, self.log, self.telling, self.kernel, self.proof)
