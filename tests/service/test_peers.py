"""Who is at which address: a `no` is final for the sender's evidence, so it is said only when it is sure."""

from __future__ import annotations

import threading

import pytest

from slurm_triage.service import peers as module
from slurm_triage.service.peers import AGE, SOONER, Peers

CONFIG = "SlurmctldHost[0]        = ctl(192.0.2.1)\nSlurmctldHost[1] = spare\n"


class Site:
    """slurmctld and a name server."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.at = {"c1": "10.0.0.1"}
        self.names = {"spare": "192.0.2.2"}
        self.asked = 0
        self.down = False
        self.peers = Peers(self._nodes, lambda: CONFIG, self._resolve, lambda: self.now)

    def _nodes(self) -> str:
        self.asked += 1
        if self.down:
            raise RuntimeError("slurmctld does not answer")
        return "".join(f"NodeName={n} Arch=x NodeAddr={a} NodeHostName={n} Version=24.11\n" for n, a in self.at.items())

    def _resolve(self, name: str) -> frozenset[str]:
        return frozenset((name,)) if name[0].isdigit() else frozenset(filter(None, (self.names.get(name),)))


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_host_is_where_slurmctld_has_it(site: Site) -> None:
    assert site.peers.node_is_at("c1", "10.0.0.1") is True and site.peers.node_is_at("c1", "::ffff:10.0.0.1") is True
    assert site.peers.controller_is_at("192.0.2.1") is True and site.peers.controller_is_at("192.0.2.2") is True
    assert site.asked == 1


def test_a_host_somewhere_else_is_refused_by_a_list_of_now(site: Site) -> None:
    assert site.peers.node_is_at("c1", "10.0.0.9") is False and site.asked == 1
    assert site.peers.node_is_at("c9", "10.0.0.1") is None and site.asked == 1
    site.now += SOONER + 1
    assert site.peers.node_is_at("c9", "10.0.0.1") is False and site.asked == 2


def test_a_node_that_was_added_or_has_moved_loses_nothing(site: Site) -> None:
    assert site.peers.node_is_at("c1", "10.0.0.1")
    site.at = {"c1": "10.0.0.7", "c2": "10.0.0.2"}
    assert site.peers.node_is_at("c2", "10.0.0.2") is None and site.peers.node_is_at("c1", "10.0.0.7") is None
    site.now += SOONER + 1
    assert site.peers.node_is_at("c2", "10.0.0.2") is True and site.peers.node_is_at("c1", "10.0.0.7") is True


def test_without_a_name_server_nobody_is_refused(site: Site) -> None:
    site.at = {"c1": "node-c1"}
    assert site.peers.node_is_at("c1", "10.0.0.1") is None
    site.names = {"node-c1": "10.0.0.1"}
    assert site.peers.node_is_at("c1", "10.0.0.1") is None, "asked again at once"
    site.now += SOONER + 1
    assert site.peers.node_is_at("c1", "10.0.0.1") is True


def test_one_name_that_is_known_is_enough_to_refuse(site: Site) -> None:
    assert "c1" not in site.names and site.peers.node_is_at("c1", "10.0.0.2") is False


def test_while_slurmctld_is_down_what_was_known_holds_and_it_is_spared(site: Site) -> None:
    site.down = True
    for _ in range(5):
        assert site.peers.node_is_at("c1", "10.0.0.1") is None
    assert site.asked == 1
    site.down, site.now = False, site.now + SOONER + 1
    assert site.peers.node_is_at("c1", "10.0.0.1") is True
    site.down, site.now = True, site.now + AGE + 1
    assert site.peers.node_is_at("c1", "10.0.0.1") is True and site.peers.node_is_at("c1", "10.0.0.2") is None
    assert site.asked == 3


def test_a_slurmctld_that_hangs_holds_up_nobody(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    release, began = threading.Event(), threading.Event()

    def hang() -> str:
        began.set()
        release.wait(20)
        raise RuntimeError

    known = Peers(site._nodes, lambda: CONFIG, site._resolve, lambda: site.now)
    assert known.node_is_at("c1", "10.0.0.1")
    site.now += AGE + 1
    known._ask_nodes = hang
    unknown = Peers(hang, lambda: CONFIG, site._resolve, lambda: site.now)
    for peers, expected in ((known, True), (unknown, None)):
        began.clear()
        thread = threading.Thread(target=peers.node_is_at, args=("c1", "10.0.0.1"))
        thread.start()
        assert began.wait(10)
        assert peers.node_is_at("c1", "10.0.0.1") is expected
        release.set()
        thread.join()
        release.clear()
