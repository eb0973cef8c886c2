"""Whose a JWT is: what its issuer signed and a policy means; every attack is refused, with its reason for the log."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from deltaic.catalog.items import Policy
from deltaic.identity import claims as claims_of
from deltaic.identity import jose
from deltaic.identity.issuer_keys import IssuerKeys
from deltaic.identity.jose import JwtRejected
from deltaic.identity.key_download import download_metadata
from deltaic.sign_in.jwt_bearers import JwtBearers
from hypothesis import given
from hypothesis import strategies as st
from identity.issuer import Issuer, private_key, published, running
from jwt.warnings import InsecureKeyLengthWarning

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Held:
    """Policies in memory, of which the authorizer asks as of the catalog's."""

    policies: list[Policy] = field(default_factory=list)

    def of_issuer(self, issuer: str) -> Sequence[Policy]:
        return [policy for policy in self.policies if policy.issuer == issuer]

    def add(self, issuer: str, recipient: str = "alice", **said: Any) -> None:
        usual = {"audience": "deltaic", "subject_claim": "sub", "subject": "alice", **said}
        number = f"{len(self.policies):012x}"
        self.policies.append(
            Policy(
                id=number, recipient_id=f"id-{recipient}", recipient=recipient, issuer=issuer, created_at=NOW, **usual
            )
        )


@dataclass
class Door:
    """An authorizer's way of taking JWTs, with a clock that a test moves."""

    issuer: Issuer
    held: Held
    ahead: float = 0.0

    def __post_init__(self) -> None:
        keys = IssuerKeys(lambda issuer: download_metadata(issuer, loopback=True).keys, self.clock)
        self.bearers = JwtBearers(self.held, keys, clock=self.clock)  # type: ignore[arg-type]  # it asks for one method

    def clock(self) -> float:
        return time.time() + self.ahead

    def refusal(self, token: str) -> str:
        with pytest.raises(JwtRejected) as refused:
            self.bearers.authenticate(token)
        return str(refused.value)


@pytest.fixture(scope="module")
def served() -> Iterator[Issuer]:
    with running() as issuer:
        yield issuer


@pytest.fixture
def door(served: Issuer) -> Door:
    served.rotate("first")
    served.asked.clear()
    served.answers.clear()
    door = Door(served, Held())
    door.held.add(served.url)
    return door


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("algorithm", sorted(jose.ALGORITHMS))
def test_every_algorithm_lets_its_bearer_in(door: Door, algorithm: str) -> None:
    door.issuer.rotate("one", algorithm)
    bearer = door.bearers.authenticate(door.issuer.token())
    assert (bearer.recipient_id, bearer.recipient, bearer.id) == ("id-alice", "alice", "jwt-000000000000")
    changed = door.issuer.token(sub="alice", more="x").rsplit(".", 1)[0] + "." + door.issuer.token().rsplit(".", 1)[1]
    assert "signature" in door.refusal(changed)


def signed(issuer: Issuer, content: bytes) -> str:
    import jwt

    kid, (algorithm, key) = list(issuer.keys.items())[-1]
    return jwt.api_jws.encode(content, key, algorithm, {"kid": kid})


def renamed(issuer: Issuer, algorithm: str) -> str:
    _, claims, signature = issuer.token().split(".")
    return f"{part({'alg': algorithm, 'kid': 'first'})}.{claims}.{signature}"


def shared_secret(issuer: Issuer) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = issuer.keys["first"][1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = f"{part({'alg': 'HS256', 'kid': 'first'})}.{issuer.token().split('.')[1]}"
    digest = hmac.digest(public, text.encode(), hashlib.sha256)
    return f"{text}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def own_key(issuer: Issuer, headers: dict[str, Any]) -> str:
    """Sign by a stranger's key under the issuer's kid, and bring the key along."""
    stranger = Issuer(issuer.url)
    stranger.rotate("first")
    algorithm, key = stranger.keys["first"]
    brought = {"jwk": published(key, algorithm, "first")} if "jwk" in headers else headers
    return stranger.token(brought)


ATTACKS: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "alg none": (lambda it: f"{part({'alg': 'none', 'kid': 'first'})}.{it.token().split('.')[1]}.", "algorithm"),
    "alg None in capitals": (
        lambda it: f"{part({'alg': 'NONE', 'kid': 'first'})}.{it.token().split('.')[1]}.",
        "algorithm",
    ),
    "no alg": (lambda it: f"{part({'kid': 'first'})}.{it.token().split('.')[1]}.AAAA", "algorithm"),
    "alg a list": (lambda it: f"{part({'alg': ['RS256'], 'kid': 'first'})}.{it.token().split('.')[1]}.A", "algorithm"),
    "signature left out": (lambda it: it.token().rsplit(".", 1)[0] + ".", "signature"),
    "public key as a shared secret": (shared_secret, "algorithm"),
    "RSA key by another family": (lambda it: renamed(it, "ES256"), "no such key"),
    "PS256 said of RS256": (lambda it: renamed(it, "PS256"), "signature"),
    "kid of a path": (lambda it: it.token({"kid": "../../dev/null"}), "no such key"),
    "kid of SQL": (lambda it: it.token({"kid": "' UNION SELECT 'x"}), "no such key"),
    "kid of nothing": (lambda it: it.token({"kid": ""}), "names no key"),
    "kid no text": (lambda it: f"{part({'alg': 'RS256', 'kid': {'a': 1}})}.{it.token().split('.')[1]}.A", "no key"),
    "kid at length": (lambda it: it.token({"kid": "k" * 257}), "names no key"),
    "a key of its own": (lambda it: own_key(it, {"jwk": None}), "signature"),
    "an address of its own": (lambda it: own_key(it, {"jku": "http://127.0.0.1:9/keys"}), "signature"),
    "crit": (lambda it: it.token({"crit": ["exp"], "exp": 1}), "more than is known"),
    "another audience": (lambda it: it.token(aud="another"), "audience"),
    "audience in other letters": (lambda it: it.token(aud="Deltaic"), "audience"),
    "audience in a text": (lambda it: it.token(aud="deltaic other"), "audience"),
    "no audience": (lambda it: it.token(aud=None), "audience"),
    "another subject": (lambda it: it.token(sub="bob"), "subject"),
    "subject a list": (lambda it: it.token(sub=["alice"]), "subject"),
    "another issuer": (lambda it: it.token(iss="https://evil.example"), "no policy names its issuer"),
    "issuer with a slash": (lambda it: it.token(iss=it.url + "/"), "no policy names its issuer"),
    "issuer a list": (lambda it: it.token(iss=[it.url]), "names no issuer"),
    "no issuer": (lambda it: it.token(iss=None), "names no issuer"),
    "ended": (lambda it: it.token(exp=int(time.time()) - 61), "has ended"),
    "no end": (lambda it: it.token(exp=None), "no end"),
    "end a text": (lambda it: it.token(exp="9999999999"), "no number"),
    "end true": (lambda it: it.token(exp=True), "no number"),
    "end without end": (lambda it: it.token(exp=math.inf), "no number"),
    "end no number": (lambda it: it.token(exp=math.nan), "no number"),
    "end beyond floats": (lambda it: it.token(exp=10**400), "no number"),
    "end null": (lambda it: signed(it, b'{"iss": "%s", "exp": null}' % it.url.encode()), "no number"),
    "not yet": (lambda it: it.token(nbf=int(time.time()) + 90), "has not begun"),
    "of the future": (lambda it: it.token(iat=int(time.time()) + 90), "has not begun"),
    "oversized": (lambda it: it.token(padding="x" * 8192), "longer than 8 KB"),
    "claims no object": (lambda it: signed(it, b"[1]"), "no object"),
    "claims no JSON": (lambda it: signed(it, b"{"), "no JSON"),
    "claims deep": (lambda it: signed(it, b"[" * 5000), "no JSON"),
    "claims not UTF-8": (lambda it: signed(it, b'{"iss": "\xff"}'), "no JSON"),
    "four parts": (lambda it: it.token() + ".x", "three parts"),
    "line end": (lambda it: it.token() + "\n", "three parts"),
    "not base64": (lambda _: "a.b.c", "no JSON"),
    "empty parts": (lambda _: "..", "three parts"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused(door: Door, attack: str) -> None:
    forge, reason = ATTACKS[attack]
    token = forge(door.issuer)
    said = door.refusal(token)
    assert reason in said
    assert not [part for part in token.split(".") if len(part) > 8 and part in said]
    assert door.bearers.authenticate(door.issuer.token())


@pytest.mark.parametrize(
    "attack", ["another issuer", "another audience", "another subject", "ended", "oversized", "alg none", "no end"]
)
def test_nobody_is_asked_for_a_token_that_no_policy_means(door: Door, attack: str) -> None:
    door.refusal(ATTACKS[attack][0](door.issuer))
    assert door.issuer.asked == []


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": -59},
        {"nbf": 59},
        {"iat": 59},
        {"exp": 0.5},
    ],
    ids=str,
)
def test_a_clock_may_differ_by_a_minute(door: Door, claims: dict[str, float]) -> None:
    now = time.time()
    assert door.bearers.authenticate(door.issuer.token(**{name: now + value for name, value in claims.items()}))


@given(now=st.integers(0, 2**33), shift=st.integers(-300, 300), name=st.sampled_from(["exp", "nbf", "iat"]))
def test_times_count_to_the_second(now: int, shift: int, name: str) -> None:
    claims = {"exp": now + 1000, name: now + shift}
    holds = shift > -60 if name == "exp" else shift <= 60
    try:
        claims_of.check_times(claims, now)
    except JwtRejected:
        assert not holds
    else:
        assert holds


PLAIN: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 941, 940.5, 1e300, 10**400, math.nan, math.inf, -1, "", "a", "s", "1000", {}]
)
VALUES: st.SearchStrategy[Any] = PLAIN | st.lists(PLAIN, max_size=3)


@given(claims=st.dictionaries(st.sampled_from(["exp", "nbf", "iat", "aud", "sub", "groups", "azp", "oid"]), VALUES))
def test_whatever_the_claims_are_they_are_judged(claims: dict[str, Any]) -> None:
    """No value of a claim is anything but meant or not, in time or refused."""
    for claim in ("sub", "oid", "azp", "groups"):
        told = claims_of.meant(claims, audience="a", claim=claim, subject="s")
        audience, subject = claims.get("aud"), claims.get(claim)
        audiences = audience if isinstance(audience, list) else [audience]
        listed = subject if isinstance(subject, list) else []
        subjects = listed if claim == "groups" else [subject]
        assert told == ("a" in audiences and "s" in subjects)
    try:
        claims_of.check_times(claims, 1000.0)
    except JwtRejected:
        pass
    else:
        assert claims["exp"] > 940


@given(st.text(max_size=300) | st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}"))
def test_whatever_is_sent_is_read_or_refused(token: str) -> None:
    with suppress(JwtRejected):
        assert jose.read(token).algorithm in jose.ALGORITHMS


def test_a_group_is_one_of_a_list(door: Door) -> None:
    door.held.policies.clear()
    door.held.add(door.issuer.url, subject_claim="groups", subject="readers")
    assert door.bearers.authenticate(door.issuer.token(groups=["writers", "readers"]))
    for groups in ("readers", ["reader"], [], [["readers"]], {"readers": 1}, None):
        assert "subject" in door.refusal(door.issuer.token(groups=groups))


@pytest.mark.parametrize("claim", ["sub", "oid", "azp"])
def test_a_policy_looks_at_the_claim_that_it_names_alone(door: Door, claim: str) -> None:
    door.held.policies.clear()
    door.held.add(door.issuer.url, subject_claim=claim, subject="7f3c")
    others = {name: "7f3c" for name in ("sub", "oid", "azp", "client_id") if name != claim}
    assert "subject" in door.refusal(door.issuer.token(**{claim: "other"}, **others))
    assert door.bearers.authenticate(door.issuer.token(**{claim: "7f3c"}, aud=["x", "deltaic"]))


def test_policies_of_two_recipients_let_in_neither(door: Door) -> None:
    door.held.add(door.issuer.url, "bob", subject_claim="groups", subject="readers")
    assert door.bearers.authenticate(door.issuer.token()).recipient == "alice"
    assert "several recipients" in door.refusal(door.issuer.token(groups=["readers"]))
    door.held.add(door.issuer.url, "alice", subject_claim="groups", subject="writers")
    assert door.bearers.authenticate(door.issuer.token(groups=["writers"])).id == "jwt-000000000000"


def test_a_removed_policy_ends_its_tokens(door: Door) -> None:
    token = door.issuer.token()
    assert door.bearers.authenticate(token)
    door.held.policies.clear()
    assert "no policy" in door.refusal(token)


@pytest.mark.parametrize("change", ["weak", "huge exponent", "to encrypt", "of another algorithm", "no key", "HS256"])
def test_a_key_that_is_not_for_this_is_none(door: Door, change: str) -> None:
    algorithm, key = door.issuer.keys["first"]
    jwk = published(key, algorithm, "first")
    if change == "weak":
        weak = private_key("RS256", 1024)
        door.issuer.keys["first"] = (algorithm, weak)
        jwk = published(weak, algorithm, "first")
    changed = {
        "weak": jwk,
        "huge exponent": {**jwk, "e": jwk["n"]},
        "to encrypt": {**jwk, "use": "enc"},
        "of another algorithm": {**jwk, "alg": "RS512"},
        "no key": {**jwk, "n": 7},
        "HS256": {"kty": "oct", "k": "c2VjcmV0", "kid": "first"},
    }[change]
    keys = IssuerKeys(lambda _: (changed, {"kid": 7}, {}), door.clock)
    bearers = JwtBearers(door.held, keys, clock=door.clock)  # type: ignore[arg-type]
    with pytest.warns(InsecureKeyLengthWarning) if change == "weak" else nullcontext():
        token = door.issuer.token()
    with pytest.raises(JwtRejected, match="no such key"):
        bearers.authenticate(token)
