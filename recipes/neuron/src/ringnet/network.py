"""Rings of cells: each cell's spike reaches the next one's dendrite, round and round."""

from __future__ import annotations

from neuron import coreneuron, h

from . import load, prepare

Spike = tuple[float, int]  # ms, number of the cell


class Cell:
    """A soma with Hodgkin-Huxley channels and an M-current, and a passive dendrite with a synapse."""

    def __init__(self, number: int) -> None:
        context = h.ParallelContext()
        self.soma = h.Section(name="soma", cell=self)
        self.soma.L = self.soma.diam = 12.6157
        self.soma.insert("hh")
        self.soma.insert("km")
        self.dendrite = h.Section(name="dendrite", cell=self)
        self.dendrite.L, self.dendrite.diam, self.dendrite.nseg = 200, 1, 5
        self.dendrite.insert("pas")
        self.dendrite.connect(self.soma(1))
        self.synapse = h.Decay(self.dendrite(0.5))
        self.output = h.NetCon(self.soma(0.5)._ref_v, None, sec=self.soma)
        context.set_gid2node(number, context.id())
        context.cell(number, self.output)


class Network:
    """`rings` rings of `cells` cells each, started by one event in each ring's first cell."""

    def __init__(self, rings: int, cells: int) -> None:
        load()
        h.load_file("stdrun.hoc")
        self.context = h.ParallelContext()
        self.cells = [Cell(number) for number in range(rings * cells)]
        self.links = []
        for number, cell in enumerate(self.cells):
            before = number - 1 if number % cells else number + cells - 1
            self._link(self.context.gid_connect(before, cell.synapse), 5)
        self.starts = []
        for ring in range(rings):
            start = h.NetStim()
            start.number, start.start = 1, 5 + ring / 3
            self.starts.append(start)
            self._link(h.NetCon(start, self.cells[ring * cells].synapse), 1)
        self.times, self.numbers = h.Vector(), h.Vector()
        self.context.spike_record(-1, self.times, self.numbers)

    def _link(self, link: h.NetCon, delay: float) -> None:
        link.weight[0], link.delay = 0.01, delay  # µS, ms
        self.links.append(link)

    def run(self, milliseconds: float, *, core: bool, gpu: bool = False) -> list[Spike]:
        """Return all spikes, by NEURON's own solver or by CoreNEURON with the library that `prepare` chooses."""
        if core:
            prepare()
        self.times.resize(0)
        self.numbers.resize(0)
        self.context.set_maxstep(10)
        with coreneuron(enable=core, gpu=gpu, verbose=0):
            h.finitialize(-65)
            self.context.psolve(milliseconds)
        return sorted((time, int(number)) for time, number in zip(self.times, self.numbers, strict=True))
