"""One message: its signature, where it may go, and what a receiver cannot do to the sender."""

from __future__ import annotations

import json
import socket
import time
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from optimist.api.messages import outgoing
from optimist.api.messages.outgoing import Webhook, body_of, check_receiver, is_allowed, post, signed
from optimist.experiments.events import Event
from optimist_client.errors import FixError
from tests.support.receivers import receiving
from tests.support.reports import report, standing

LOOPBACK = [ip_network("127.0.0.0/8")]
PRIVATE = [
    *("127.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.8"),
    *("224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b:1::1"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public_are_refused(address: str):
    assert not is_allowed(ip_address(address), ())


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_allowed(address: str):
    assert is_allowed(ip_address(address), ())


def test_networks_can_be_allowed():
    assert is_allowed(ip_address("127.0.0.1"), LOOPBACK)
    assert is_allowed(ip_address("::ffff:127.0.0.1"), LOOPBACK)
    assert not is_allowed(ip_address("10.0.0.1"), LOOPBACK)


def test_the_signature_is_that_of_the_standard():
    # The example of the specification of Standard Webhooks.
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    headers = signed(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "[::1]"]
)
async def test_a_message_to_this_machine_is_not_sent(host: str):
    with receiving() as receiver:
        port = receiver.url.rpartition(":")[2]
        sent, note = await post(Webhook(url=f"http://{host}:{port}/", format="json"), "id", b"{}", ())
        assert not sent
        assert "not public" in note or note == "no address of the host was found"
        assert receiver.arrived == []
    if host != "localhost":
        return
    with pytest.raises(FixError, match="OPTIMIST_WEBHOOK_NETWORKS"):
        check_receiver(f"http://{host}/", ())


async def test_a_host_without_an_address_is_named_as_such():
    sent = await post(Webhook(url="http://no-host.invalid/", format="json"), "id", b"{}", ())
    assert sent == (False, "no address of the host was found")


async def test_a_name_is_looked_up_once_and_all_its_addresses_are_checked(monkeypatch: pytest.MonkeyPatch):
    """So a name that has another address a moment later (DNS rebinding) leads nowhere else."""
    looked_up: list[str] = []
    answers: list[list[str]] = []
    look_up = socket.getaddrinfo

    def names(host: Any, port: Any, *more: Any, **how: Any) -> Any:
        if host != "hook.example":
            return look_up(host, port, *more, **how)
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in answers.pop(0)]

    monkeypatch.setattr(socket, "getaddrinfo", names)
    with receiving() as receiver:
        webhook = Webhook(url=f"http://hook.example:{receiver.url.rpartition(':')[2]}/in", format="json")
        answers += [["8.8.8.8", "127.0.0.1"]]
        assert await post(webhook, "id", b"{}", ()) == (False, "the host has an address that is not public")
        assert receiver.arrived == []
        answers += [["127.0.0.1"]]
        assert await post(webhook, "id", b"{}", LOOPBACK) == (True, "answered 204")
        assert receiver.arrived[0].headers["host"].startswith("hook.example:")
    assert (len(looked_up), answers) == (2, [])


async def test_redirects_are_not_followed_and_bodies_not_read():
    with receiving() as target, receiving(endless=True) as endless, receiving(answer=lambda sent: 307) as leading:
        leading.headers = {"location": target.url}
        for receiver, said in ((leading, (False, "answered 307")), (endless, (True, "answered 204"))):
            assert await post(Webhook(url=receiver.url, format="json"), "id", b"{}", LOOPBACK) == said
        assert target.arrived == []


async def test_a_receiver_that_hangs_or_is_not_there_ends_the_attempt(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outgoing, "TIMEOUT", 0.3)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with receiving(answer=lambda sent: None) as hanging:
        webhook = Webhook(url=hanging.url, format="json")
        assert await post(webhook, "id", b"{}", LOOPBACK) == (False, "no answer within 0.3 s")
        hanging.end()
    assert await post(webhook, "id", b"{}", LOOPBACK) == (False, "ConnectError")


async def test_a_message_goes_over_tls_to_the_host_that_the_certificate_names(certificate: Any):
    assert await post(Webhook(url="https://127.0.0.1:1/", format="json"), "id", b"{}", LOOPBACK) == (
        False,
        "ConnectError",
    )


def test_slack_gets_text_without_mentions():
    best = "<!channel> & <http://evil.example|x>"
    said = report(best, standings=[standing(best, 1.0), standing("b", 2.0)])
    event = Event("decided", time.time(), "id")
    text = json.loads(body_of(Webhook(url="http://a", format="slack"), event, "default", said))["text"]
    assert "<" not in text
    assert "&lt;!channel&gt; &amp; " in text
